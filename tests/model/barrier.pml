/*
 * The barrier of actors/checkpoint: one consistent cut over several actors while mutations go on.
 * README.md maps steps and switches to rules and code. spin checks, for every order of steps:
 *
 *   no deadlock: in the end each epoch is over, and each transaction in every owner, once
 *   every gate reopens, and waits for its hold limit only when the checkpoint actor died
 *   at most one published cut per epoch
 *   every published cut holds each transaction in all owners or in none
 *   without a crash or a suspicion, every epoch is published
 *
 * A message in flight is one bit: bit i of Quiesce[e] is Quiesce(e) on its way to origin i. Any
 * message may overtake any other. A step is atomic, as a handler of an actor is.
 */
#include "bounds.h"

#define bit(i) (1 << (i))
#define all(n) (bit(n) - 1)
#define set(mask, bits) mask = mask | (bits)
#define clear(mask, bits) mask = mask & ~(bits)
#define origin_of(x) ((x) < TRANSACTIONS -> 0 : (x) - TRANSACTIONS + 1)
#define transactions_of(o) ((o) == 0 -> all(TRANSACTIONS) : bit((o) + TRANSACTIONS - 1))

/* Between the checkpoint actor and origins (bit = origin), by epoch. */
byte Quiesce[EPOCHS + 1], Quiesced[EPOCHS + 1], Resume[EPOCHS + 1], AbortGate[EPOCHS + 1];
byte ResumedHeld[EPOCHS + 1], ResumedNotHeld[EPOCHS + 1]; /* Resumed, and what it says */
/* Between the checkpoint actor and owners (bit = owner), by epoch. */
byte Cut[EPOCHS + 1], Captured[EPOCHS + 1], AbortCapture[EPOCHS + 1];
/* Leased requests to each owner, and its answers (bit = transaction). */
byte Request[OWNERS], Answer[OWNERS];

/* Origins: gate_state. */
byte closed, quiescing, resumed, held; /* bit = origin */
byte last[ORIGINS];                    /* newest epoch seen */
byte begun, cancelled;                 /* bit = transaction */
byte granted[STEPS];                   /* newest epoch that its gate had seen */
byte got[OWNERS];                      /* answers that came; bit = transaction */

/* Owners: capture_ledger. */
byte newest[OWNERS], ahead[OWNERS], kept[OWNERS], fence[OWNERS]; /* epochs */
byte tainted, twice;                    /* bit = owner; twice: it applied a request again */
byte applied[OWNERS], captured[OWNERS]; /* bit = transaction */

/* The checkpoint actor: barrier_state. Each epoch is the work of one process. */
mtype = { Idle, Quiescing, Capturing, Resuming, Publishing, Over, Dead };
mtype stage[EPOCHS + 1] = Idle;
byte answered[EPOCHS + 1];
byte written[EPOCHS + 1], bundle[EPOCHS + 1]; /* sections (bit = owner), and what they hold */
byte broken, torn, published;                 /* bit = epoch */

byte faults = FAULTS;
byte dead_origins, dead_owners; /* bit = origin, owner */
bool crashed, suspected;

#define IS_OVER(e) (stage[e] == Over || stage[e] == Dead)
#define ORIGINS_ALIVE (all(ORIGINS) & ~dead_origins)
#define OWNERS_ALIVE (all(OWNERS) & ~dead_owners)
#define NOTHING_IN_FLIGHT ((in_an_epoch(Quiesce) | in_an_epoch(Quiesced) | in_an_epoch(Resume) | \
  in_an_epoch(ResumedHeld) | in_an_epoch(ResumedNotHeld) | in_an_epoch(AbortGate) | \
  in_an_epoch(Cut) | in_an_epoch(Captured) | in_an_epoch(AbortCapture) | \
  in_any(Request) | in_any(Answer)) == 0)

/* Delivers a message; a doubled one stays in flight. */
inline take(message, i) {
  if
  :: clear(message, bit(i))
  :: faults > 0 -> faults--
  fi
}

inline suspect() { faults--; suspected = true }
inline crash() { faults--; crashed = true }

/* -------------------------------------------------------------------------------------- origins */

#define SETTLED (in_all(got) | (settled_when_answered -> 0 : cancelled))
#define UNSETTLED(o) (begun & transactions_of(o) & ~SETTLED)
#define IS_QUIESCED(o, e) ((closed & bit(o)) && last[o] == e && UNSETTLED(o) == 0)

inline answer_if_settled(o) {
  if
  :: (quiescing & bit(o)) && UNSETTLED(o) == 0 ->
    clear(quiescing, bit(o));
    set(Quiesced[last[o]], (stage[last[o]] == Quiescing -> bit(o) : 0))
  :: else
  fi
}

inline open(o) {
  clear(closed, bit(o));
  clear(quiescing, bit(o))
}

inline on_quiesce(o, e) {
  if
  :: e > last[o] || !stale_epochs_ignored ->
    last[o] = e;
    set(closed, bit(o));
    set(quiescing, bit(o));
    clear(resumed, bit(o));
    clear(held, bit(o));
    answer_if_settled(o)
  :: else
  fi
}

/* What the first Resume of an epoch is told, every later one is told again. */
inline on_resume(o, e) {
  if
  :: e > last[o] || (e == last[o] && !(resumed & bit(o))) ->
    clear(held, bit(o));
    set(held, (IS_QUIESCED(o, e) -> bit(o) : 0));
    last[o] = e;
    set(resumed, bit(o))
  :: else
  fi;
  if
  :: stage[e] != Resuming /* Nobody waits for the answer. */
  :: stage[e] == Resuming && e == last[o] && (held & bit(o)) -> set(ResumedHeld[e], bit(o))
  :: stage[e] == Resuming && !(e == last[o] && (held & bit(o))) -> set(ResumedNotHeld[e], bit(o))
  fi;
  if
  :: e == last[o] -> open(o)
  :: else
  fi
}

inline on_abort_gate(o, e) {
  if
  :: e >= last[o] ->
    last[o] = e;
    set(resumed, bit(o));
    clear(held, bit(o));
    open(o)
  :: else
  fi
}

#define gate_steps(e) \
  :: atomic { Quiesce[e] & bit(me) -> take(Quiesce[e], me); on_quiesce(me, e) } \
  :: atomic { Resume[e] & bit(me) -> take(Resume[e], me); on_resume(me, e) } \
  :: atomic { AbortGate[e] & bit(me) -> take(AbortGate[e], me); on_abort_gate(me, e) }

proctype Gate(byte me) {
end:
  do
  EACH_EPOCH(gate_steps)
  /* The hold limit, which is longer than every deadline of the checkpoint actor. */
  :: d_step { gate_opens_by_itself && (closed & bit(me)) && NOTHING_IN_FLIGHT &&
      IS_OVER(last[me]) ->
      assert(stage[1] == Dead || stage[EPOCHS] == Dead);
      open(me) }
  /* The same with a clock that runs fast. */
  :: d_step { gate_opens_by_itself && (closed & bit(me)) && faults > 0 -> suspect(); open(me) }
  od
}

/* --------------------------------------------------------------------------------- transactions */

#define LATE(w, x) (begun & ~got[w] & transactions_of(origin_of(x)))

inline on_answer(w, x) {
  if
  :: answers_matched_by_id -> set(got[w], bit(x))
  :: !answers_matched_by_id && (LATE(w, x) & bit(0)) -> set(got[w], bit(0)) /* The oldest one. */
  :: else -> set(got[w], LATE(w, x))
  fi
}

#define send_request(w) set(Request[w], (OWNERS_ALIVE & bit(w) -> bit(me) : 0));
#define transaction_steps(w) \
  :: atomic { Answer[w] & bit(me) -> \
      take(Answer[w], me); on_answer(w, me); answer_if_settled(origin_of(me)) }
#define MAY_BEGIN(x) (!(begun & bit(x)) && !(closed & bit(origin_of(x))) && \
  (ORIGINS_ALIVE & bit(origin_of(x))) && \
  ((x) == 0 || (x) >= TRANSACTIONS || ((in_all(got) | cancelled) & bit((x) - 1))))
/* Only where something can come of it, and in one origin: they are alike. */
#define MAY_CANCEL(x) ((x) == 0 && (TRANSACTIONS > 1 || !settled_when_answered) && faults > 0 && \
  (begun & ~in_all(got) & ~cancelled & bit(x)))

/* One lease. Its holder sends all requests, whatever becomes of the one who waits for it. */
proctype Transaction(byte me) {
end:
  do
  :: d_step { MAY_BEGIN(me) ->
      set(begun, bit(me));
      granted[me] = last[origin_of(me)];
      EACH_OWNER(send_request) }
  EACH_OWNER(transaction_steps)
  :: d_step { MAY_CANCEL(me) ->
      faults--;
      set(cancelled, bit(me));
      answer_if_settled(origin_of(me)) }
  od
}

/* --------------------------------------------------------------------------------------- owners */

#define IS_REFUSED(w, x) ((!foreign_epoch_applied && granted[x] != newest[w]) || \
  (!fence_only_by_instance && granted[x] < fence[w]))

inline on_request(w, x) {
  if
  :: ((applied[w] & bit(x)) && leased_requests_idempotent) || IS_REFUSED(w, x)
  :: else ->
    set(twice, (applied[w] & bit(x) -> bit(w) : 0));
    set(applied[w], bit(x));
    ahead[w] = (granted[x] > ahead[w] -> granted[x] : ahead[w]);
    set(tainted, (foreign_epoch_taints && granted[x] < kept[w] -> bit(w) : 0))
  fi;
  set(Answer[w], (dead_origins & bit(origin_of(x)) -> 0 : bit(x)))
}

inline drop_capture(w) {
  kept[w] = 0;
  captured[w] = 0;
  clear(tainted, bit(w))
}

inline on_cut(w, e) {
  if
  :: e > newest[w] || !stale_epochs_ignored ->
    drop_capture(w);
    newest[w] = e;
    kept[w] = e;
    captured[w] = applied[w];
    set(tainted, (foreign_epoch_taints && ahead[w] >= e -> bit(w) : 0));
    set(Captured[e], (stage[e] == Capturing -> bit(w) : 0))
  :: else
  fi
}

inline on_abort_capture(w, e) {
  newest[w] = (e > newest[w] -> e : newest[w]);
  fence[w] = (fence_only_by_instance -> 0 : newest[w]);
  if
  :: kept[w] <= e -> drop_capture(w)
  :: else
  fi
}

#define request_steps(x) \
  :: atomic { Request[me] & bit(x) -> take(Request[me], x); on_request(me, x) }
#define owner_steps(e) \
  :: atomic { Cut[e] & bit(me) -> take(Cut[e], me); on_cut(me, e) } \
  :: atomic { AbortCapture[e] & bit(me) -> take(AbortCapture[e], me); on_abort_capture(me, e) }

proctype Owner(byte me) {
end:
  do
  EACH_TRANSACTION(request_steps)
  EACH_EPOCH(owner_steps)
  od
}

/* ----------------------------------------------------------------------------- checkpoint actor */

/* Answers to a stage that is over change nothing: they are forgotten at once. */
inline enter(e, next) {
  Quiesced[e] = 0; Captured[e] = 0; ResumedHeld[e] = 0; ResumedNotHeld[e] = 0;
  answered[e] = 0; written[e] = 0; bundle[e] = 0;
  stage[e] = next
}

inline start(e) {
  enter(e, Quiescing);
  Quiesce[e] = ORIGINS_ALIVE
}

inline drop_captures(e) {
  AbortCapture[e] = OWNERS_ALIVE;
  enter(e, Over)
}

inline give_up(e) {
  AbortGate[e] = ORIGINS_ALIVE;
  drop_captures(e)
}

/* One more answered; with the last one the next stage begins. */
inline count(e, i) {
  set(answered[e], bit(i));
  if
  :: stage[e] == Quiescing && answered[e] == all(ORIGINS) ->
    enter(e, Capturing);
    Cut[e] = OWNERS_ALIVE
  :: stage[e] == Capturing && answered[e] == all(OWNERS) ->
    enter(e, Resuming);
    Resume[e] = ORIGINS_ALIVE
  :: stage[e] == Resuming && answered[e] == all(ORIGINS) && (broken & bit(e)) -> give_up(e)
  :: stage[e] == Resuming && answered[e] == all(ORIGINS) && !(broken & bit(e)) ->
    enter(e, Publishing)
  :: else
  fi
}

inline write_section(e, w) {
  if
  :: kept[w] == e && !(tainted & bit(w)) ->
    set(torn, (written[e] != 0 && bundle[e] != captured[w] -> bit(e) : 0));
    bundle[e] = captured[w];
    set(written[e], bit(w))
  :: else -> drop_captures(e)
  fi
}

#define origin_answers(o) \
  :: atomic { Quiesced[me] & bit(o) -> take(Quiesced[me], o); count(me, o) } \
  :: atomic { ResumedHeld[me] & bit(o) -> take(ResumedHeld[me], o); count(me, o) } \
  :: atomic { ResumedNotHeld[me] & bit(o) -> take(ResumedNotHeld[me], o); \
      set(broken, (published_only_if_held -> bit(me) : 0)); count(me, o) }
#define owner_answers(w) \
  :: atomic { Captured[me] & bit(w) -> take(Captured[me], w); count(me, w) } \
  :: d_step { stage[me] == Publishing && (OWNERS_ALIVE & ~written[me] & bit(w)) -> \
      write_section(me, w) }
#define HAS_DEADLINE \
  (stage[me] == Quiescing || stage[me] == Capturing || stage[me] == Resuming)

proctype Checkpoint(byte me) {
end:
  do
  :: d_step { stage[me] == Idle && (me == 1 || IS_OVER(me - 1)) -> start(me) }
  /* The next life of the actor, while the one before is only thought dead. */
  :: d_step { stage[me] == Idle && me > 1 && stage[me - 1] != Idle && faults > 0 ->
      suspect(); start(me) }
  EACH_ORIGIN(origin_answers)
  EACH_OWNER(owner_answers)
  :: d_step { stage[me] == Publishing && written[me] == all(OWNERS) ->
      assert(!(published & bit(me)));
      assert(!(torn & bit(me)));
      set(published, bit(me));
      enter(me, Over) }
  :: d_step { stage[me] == Publishing && (dead_owners & ~written[me]) -> drop_captures(me) }
  :: d_step { HAS_DEADLINE && NOTHING_IN_FLIGHT -> give_up(me) }
  :: d_step { HAS_DEADLINE && faults > 0 -> suspect(); give_up(me) }
  :: d_step { stage[me] != Idle && !IS_OVER(me) && faults > 0 -> crash(); enter(me, Dead) }
  od
}

/* ------------------------------------------------------------------------ deaths, and the end */

#define lose_request(w) clear(Answer[w], transactions_of(lost));
#define forget_lease(w) set(got[w], begun & transactions_of(lost));
#define lose_messages(e) \
  Quiesce[e] = Quiesce[e] & ORIGINS_ALIVE; Resume[e] = Resume[e] & ORIGINS_ALIVE; \
  AbortGate[e] = AbortGate[e] & ORIGINS_ALIVE; Cut[e] = Cut[e] & OWNERS_ALIVE; \
  AbortCapture[e] = AbortCapture[e] & OWNERS_ALIVE;

/* The incarnation ends; until it has ended, all others go on. Or, without the rule: started again
 * in place, a gate that is open and knows no lease, an owner without its state. */
inline lose_origin(o) {
  lost = o;
  open(o);
  if
  :: owner_death_ends_incarnation -> set(dead_origins, bit(o)); EACH_OWNER(lose_request)
  :: else -> last[o] = 0; clear(resumed, bit(o)); clear(held, bit(o)); EACH_OWNER(forget_lease)
  fi;
  lost = 0;
  EACH_EPOCH(lose_messages)
}

inline lose_owner(w) {
  if
  :: owner_death_ends_incarnation -> set(dead_owners, bit(w)); Request[w] = 0
  :: else -> newest[w] = 0; ahead[w] = 0; applied[w] = 0; drop_capture(w)
  fi;
  EACH_EPOCH(lose_messages)
}

#define death_of_origin(o) \
  :: d_step { faults > 0 && (ORIGINS_ALIVE & bit(o)) -> crash(); lose_origin(o) }
#define death_of_owner(w) \
  :: d_step { faults > 0 && (OWNERS_ALIVE & bit(w)) -> crash(); lose_owner(w) }
#define is_whole(w) assert(crashed || applied[w] == all(STEPS));

active proctype World() {
  byte lost, i;
  atomic {
    for (i : 0 .. ORIGINS - 1) { run Gate(i) }
    for (i : 0 .. OWNERS - 1) { run Owner(i) }
    for (i : 0 .. STEPS - 1) { run Transaction(i) }
    for (i : 1 .. EPOCHS) { run Checkpoint(i) }
    i = 0
  }
  do
  EACH_ORIGIN(death_of_origin)
  EACH_OWNER(death_of_owner)
  :: d_step { IS_OVER(1) && IS_OVER(EPOCHS) && NOTHING_IN_FLIGHT && faults > 0 -> faults = 0 }
  :: timeout -> break
  od;
  atomic {
    assert(closed == 0);
    assert(IS_OVER(1) && IS_OVER(EPOCHS));
    EACH_OWNER(is_whole)
    assert(crashed || twice == 0);
    assert(crashed || suspected || published == all(EPOCHS + 1) - 1)
  }
}
