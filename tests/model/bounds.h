/* Sizes of the model, faults, and the rules with their switches. `spin -DORIGINS=3 ...`. */

#ifndef ORIGINS
#define ORIGINS 2
#endif
#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef TRANSACTIONS /* of the first origin: 1 or 2; each other one has one */
#define TRANSACTIONS 1
#endif
#ifndef EPOCHS /* checkpoints: 1 or 2 */
#define EPOCHS 2
#endif
/* How many faults there may be, each of any kind: a holder that stops waiting for answers, a message
 * that is delivered and stays in flight, a deadline that passes though everyone is alive, a crash. */
#ifndef FAULTS
#define FAULTS 1
#endif

/* The rules, by their names in messages/rule.hpp. The code has no switch for two of them: nothing in
 * it refuses a foreign epoch, or starts an origin or an owner again. */
#ifndef settled_when_answered
#define settled_when_answered true
#endif
#ifndef stale_epochs_ignored
#define stale_epochs_ignored true
#endif
#ifndef published_only_if_held
#define published_only_if_held true
#endif
#ifndef leased_requests_idempotent
#define leased_requests_idempotent true
#endif
#ifndef answers_matched_by_id
#define answers_matched_by_id true
#endif
#ifndef gate_opens_by_itself
#define gate_opens_by_itself true
#endif
#ifndef foreign_epoch_taints
#define foreign_epoch_taints true
#endif
#ifndef foreign_epoch_applied /* the other half of rule 7 */
#define foreign_epoch_applied true
#endif
#ifndef fence_only_by_instance
#define fence_only_by_instance true
#endif
#ifndef owner_death_ends_incarnation
#define owner_death_ends_incarnation true
#endif

/* Spin has no loop over guards: a step for each participant is a macro, written out. */
#if ORIGINS == 1
#define EACH_ORIGIN(step) step(0)
#elif ORIGINS == 2
#define EACH_ORIGIN(step) step(0) step(1)
#else
#define EACH_ORIGIN(step) step(0) step(1) step(2)
#endif
#if OWNERS == 2
#define EACH_OWNER(step) step(0) step(1)
#define in_all(mask) (mask[0] & mask[1])
#define in_any(mask) (mask[0] | mask[1])
#else
#define EACH_OWNER(step) step(0) step(1) step(2)
#define in_all(mask) (mask[0] & mask[1] & mask[2])
#define in_any(mask) (mask[0] | mask[1] | mask[2])
#endif
#define STEPS (ORIGINS + TRANSACTIONS - 1)
#if ORIGINS + TRANSACTIONS == 2
#define EACH_TRANSACTION(step) step(0)
#elif ORIGINS + TRANSACTIONS == 3
#define EACH_TRANSACTION(step) step(0) step(1)
#elif ORIGINS + TRANSACTIONS == 4
#define EACH_TRANSACTION(step) step(0) step(1) step(2)
#else
#define EACH_TRANSACTION(step) step(0) step(1) step(2) step(3)
#endif
#if EPOCHS == 1
#define EACH_EPOCH(step) step(1)
#define in_an_epoch(mask) mask[1]
#else
#define EACH_EPOCH(step) step(1) step(2)
#define in_an_epoch(mask) (mask[1] | mask[2])
#endif
