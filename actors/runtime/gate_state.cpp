#include "actors/runtime/gate_state.hpp"

#include "messages/rule.hpp"

namespace weir {

gate_state::transaction_id gate_state::enter(time now) {
  ensure(open(), "a lease is given out by an open gate only");
  const transaction_id id = next_transaction_++;
  transactions_.emplace(id, transaction{now, last_epoch_});
  return id;
}

epoch_id gate_state::granted_at(transaction_id id) const {
  const auto place = transactions_.find(id);
  ensure(place != transactions_.end(), "a lease of this gate has a transaction");
  return place->second.granted_at;
}

std::uint32_t gate_state::sent(transaction_id id) {
  const auto place = transactions_.find(id);
  ensure(place != transactions_.end(), "a request goes out under a lease of this gate");
  ensure(!place->second.released, "a released lease sends nothing");
  ++place->second.unanswered;
  return place->second.steps++;
}

void gate_state::settle(std::map<transaction_id, transaction>::iterator place) {
  const bool answered = place->second.unanswered == 0 || !enforced(rule::settled_when_answered);
  if (place->second.released && answered) transactions_.erase(place);
}

void gate_state::answered(transaction_id id) {
  const auto place = transactions_.find(id);
  if (place == transactions_.end() && !enforced(rule::settled_when_answered)) return;
  ensure(place != transactions_.end(), "an answer belongs to an unsettled transaction");
  ensure(place->second.unanswered > 0, "a request is answered once");
  --place->second.unanswered;
  settle(place);
}

void gate_state::released(transaction_id id) {
  const auto place = transactions_.find(id);
  ensure(place != transactions_.end(), "a lease of this gate is released");
  ensure(!place->second.released, "a lease is released once");
  place->second.released = true;
  settle(place);
}

bool gate_state::close(epoch_id epoch, time now, time hold_limit) {
  if (epoch <= last_epoch_ && enforced(rule::stale_epochs_ignored)) return false;
  last_epoch_ = epoch;
  hold_deadline_ = now + hold_limit;
  closed_ = true;
  resumed_ = false;
  return true;
}

bool gate_state::quiesced(epoch_id epoch) const noexcept {
  return closed_ && epoch == last_epoch_ && transactions_.empty();
}

bool gate_state::opens(epoch_id epoch) noexcept {
  if (epoch < last_epoch_) return false;
  if (epoch > last_epoch_) {
    last_epoch_ = epoch;
    resumed_ = false;
  }
  return true;
}

bool gate_state::resume(epoch_id epoch) {
  const bool held = quiesced(epoch);
  if (!opens(epoch)) return false;
  if (!resumed_) {
    resumed_ = true;
    resumed_held_ = held;
  }
  open_now();
  return resumed_held_;
}

void gate_state::abort(epoch_id epoch) {
  if (!opens(epoch)) return;
  resumed_ = true;
  resumed_held_ = false;
  open_now();
}

bool gate_state::expire(time now) noexcept {
  if (!closed_ || now < hold_deadline_ || !enforced(rule::gate_opens_by_itself)) return false;
  open_now();
  return true;
}

std::optional<gate_state::oldest_lease> gate_state::oldest(time now) const {
  if (transactions_.empty()) return std::nullopt;
  const auto& [id, first] = *transactions_.begin();
  return oldest_lease{id, now - first.since, first.unanswered, first.released};
}

void gate_state::check_invariants() const noexcept {
  for (const auto& [id, each] : transactions_) {
    ensure(id < next_transaction_, "a transaction was numbered by this gate");
    ensure(!each.released || each.unanswered > 0, "a settled transaction is forgotten");
    ensure(each.unanswered <= each.steps, "only requests that were sent are unanswered");
  }
}

} // namespace weir
