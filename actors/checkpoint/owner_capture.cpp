#include "actors/checkpoint/owner_capture.hpp"

#include "messages/rule.hpp"

namespace weir {

result<void> capture_ledger::admissible(epoch_id lease_epoch) const {
  if (lease_epoch >= fence_) return {};
  return failure(errc::conflict, "a lease of epoch " + to_string(lease_epoch) +
                                     " is refused after the Abort of " + to_string(fence_));
}

bool capture_ledger::accepts(epoch_id epoch) const {
  return epoch > newest_ || !enforced(rule::stale_epochs_ignored);
}

void capture_ledger::applied(epoch_id lease_epoch) {
  ++mutations_;
  if (!enforced(rule::foreign_epoch_taints)) return;
  ahead_ = std::max(ahead_, lease_epoch);
  if (kept_ && lease_epoch < kept_->epoch) kept_->tainted = true;
}

capture_facts capture_ledger::cut(epoch_id epoch) {
  ensure(accepts(epoch), "an owner obeys only a Cut that is newer than all it saw");
  newest_ = epoch;
  kept_ = kept_capture{.epoch = epoch, .mutations = mutations_, .tainted = ahead_ >= epoch};
  return {.epoch = epoch, .tainted = kept_->tainted, .mutations = mutations()};
}

bool capture_ledger::abort(epoch_id epoch) {
  newest_ = std::max(newest_, epoch);
  if (!enforced(rule::fence_only_by_instance)) fence_ = newest_;
  if (!kept_ || kept_->epoch > epoch) return false;
  kept_.reset();
  return true;
}

bool capture_ledger::release(epoch_id epoch) {
  if (!kept_ || kept_->epoch != epoch) return false;
  // Tainted after it was written: only a gate that lied makes that possible, and then nothing that
  // this owner knows is known to be in the bundle.
  const bool is_sound = !kept_->tainted;
  if (is_sound) published_ = kept_->mutations;
  kept_.reset();
  return is_sound;
}

result<void> capture_ledger::publishable(epoch_id epoch) const {
  if (!kept_ || kept_->epoch != epoch)
    return failure(errc::conflict, "no capture of epoch " + to_string(epoch) + ": " +
                                       (kept_ ? "kept is " + to_string(kept_->epoch)
                                              : std::string("it was dropped or released")));
  if (kept_->tainted)
    return failure(errc::conflict, "capture of epoch " + to_string(epoch) +
                                       " is tainted: a transaction lies on both sides of the cut");
  return {};
}

std::optional<epoch_id> capture_ledger::kept() const {
  if (!kept_) return std::nullopt;
  return kept_->epoch;
}

} // namespace weir
