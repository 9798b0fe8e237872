// The rollout actor's side of `on_dropped_prompt: replace`: filling the reserve, draining it at the
// end of the data, and putting a spare in the place of a group that failed for good.
#include "actors/rollout/rollout.hpp"
#include "actors/runtime/combinators.hpp"
#include "actors/runtime/failpoint.hpp"
#include "messages/rule.hpp"

#include <utility>

namespace weir {

namespace {

PromoteGroupT promotion_into(const ledger_record& place) {
  PromoteGroupT want;
  want.target_step = place.target_step;
  want.dispatch_index = place.dispatch_index;
  return want;
}

RepayGroupT repayment_of(const GroupPromoted& lent, group_id fresh) {
  RepayGroupT want;
  want.group = fresh.value;
  want.dispatch_index = lent.dispatch_index();
  want.target_step = lent.target_step();
  want.admission_version = lent.admission_version();
  return want;
}

} // namespace

/// A whole batch becomes spares. A shorter one is the last of the data, and an ordinary tail.
task<result<void>> rollout::divert_next(next_supply next) {
  auto peeked = co_await peek(next.groups);
  if (!peeked) co_return failure(std::move(peeked.error()));
  auto batch = std::make_shared<const prompt_batch>(std::move(*peeked));
  if (batch->prompts.size() < next.groups) {
    auto taken = co_await take_batch(batch, next);
    co_return std::move(taken);
  }
  auto diverted = co_await shielded(divert(batch));
  co_return std::move(diverted);
}

task<result<void>> rollout::divert(std::shared_ptr<const prompt_batch> batch) {
  auto lease = co_await mutations().enter();
  auto move_request = pack(cursor_move_of(*batch));
  auto moved = co_await peers_.loader.ask(lease, move_request, within(options_.request_timeout));
  if (!moved) co_return failure(std::move(moved.error()));
  co_await failpoint("rollout.diverting");
  auto divert_request = pack(diversion_of(*batch, options_.siblings));
  auto diverted =
      co_await peers_.sampler.ask(lease, divert_request, within(options_.request_timeout));
  if (!diverted) co_return failure(std::move(diverted.error()));
  state_.spares_are((*diverted)->spares());
  co_return result<void>();
}

/// The data ended: spares become RESERVED like prompts of the dataloader, and are read again.
task<result<void>> rollout::drain_next(next_supply next) {
  auto drained = co_await shielded(drain(next));
  if (!drained) co_return failure(std::move(drained.error()));
  std::vector<PromptKeyT> keys;
  for (const ledger_record& record : *drained)
    keys.push_back(key_of(record));
  auto prompts = co_await fetch(std::move(keys));
  if (!prompts) co_return failure(std::move(prompts.error()));
  std::vector<group_id> groups;
  for (PromptT& prompt : *prompts) {
    groups.emplace_back(prompt.group);
    reserved_prompts_.emplace(groups.back(), std::move(prompt));
  }
  // None are left where groups that failed meanwhile were replaced by them.
  if (!groups.empty()) state_.reserved(next.admission, groups);
  co_return result<void>();
}

task<result<std::vector<ledger_record>>> rollout::drain(next_supply next) {
  auto lease = co_await mutations().enter();
  DrainReserveT want;
  want.admission = next.admission;
  want.count = next.groups;
  auto request = pack(want);
  auto drained = co_await peers_.sampler.ask(lease, request, within(options_.request_timeout));
  if (!drained) co_return failure(std::move(drained.error()));
  state_.spares_are((*drained)->spares());
  co_return records_of((*drained)->groups());
}

/// A group that failed for good leaves the ledger. Where a spare takes its place, a finished group
/// of the furthest later step stands in for it, if there is one, and the spare repays that step:
/// one lease covers all of it, since in between one step has too many groups and one too few.
task<result<void>> rollout::give_up(std::uint64_t group, DropReason reason) {
  auto lease = co_await mutations().enter();
  ReplaceGroupT want;
  want.group = group;
  want.reason = reason;
  auto replace_request = pack(want);
  auto replaced =
      co_await peers_.sampler.ask(lease, replace_request, within(options_.request_timeout));
  if (!replaced) co_return failure(std::move(replaced.error()));
  StopGroupT stop;
  stop.group = group;
  peers_.replay.tell(pack(stop));
  state_.spares_are((*replaced)->spares());
  spares_moved_.raise();
  if ((*replaced)->dropped()) {
    ++counters_->prompts_dropped;
    ++counters_->groups_dropped[static_cast<std::size_t>(reason)];
  }
  if ((*replaced)->spare() == nullptr) co_return result<void>();
  auto spare = record_of(*(*replaced)->spare());
  if (!spare) co_return failure(std::move(spare.error()));
  co_await failpoint("rollout.replacing");
  if (!enforced(rule::replaced_under_one_lease)) {
    lease.release();
    lease = co_await mutations().enter();
  }
  auto promote_request = pack(promotion_into(*spare));
  auto promoted =
      co_await peers_.replay.ask(lease, promote_request, within(options_.request_timeout));
  if (!promoted) co_return failure(std::move(promoted.error()));
  if ((*promoted)->found()) {
    auto repay_request = pack(repayment_of(**promoted, spare->group));
    co_await failpoint("rollout.repaying");
    if (!enforced(rule::replaced_under_one_lease)) {
      lease.release();
      lease = co_await mutations().enter();
    }
    auto repaid =
        co_await peers_.sampler.ask(lease, repay_request, within(options_.request_timeout));
    if (!repaid) co_return failure(std::move(repaid.error()));
    spare = record_of(*(*repaid)->group());
    if (!spare) co_return failure(std::move(spare.error()));
    ++counters_->prompts_promoted;
  }
  ++counters_->prompts_replaced;
  // In this turn, and not by whoever waits for the transaction: they may be cancelled.
  state_.took_place(spare->group);
  groups_.spawn(&rollout::run_spare, this, std::move(*spare));
  co_return result<void>();
}

task<void> rollout::run_spare(ledger_record spare) {
  std::vector<ledger_record> one(1, std::move(spare));
  auto started = co_await start_admitted(std::move(one));
  if (!started) fail(std::move(started.error()));
}

/// Comes back when a batch has to be set aside before anything else.
task<void> rollout::reserve_low() {
  while (!state_.reserve_is_low())
    co_await spares_moved_.raised();
}

} // namespace weir
