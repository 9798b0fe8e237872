#include "actors/runtime/gate.hpp"

namespace weir {

lease& lease::operator=(lease&& other) noexcept {
  if (this != &other) {
    release();
    gate_ = std::exchange(other.gate_, nullptr);
    transaction_ = other.transaction_;
    other.holding_.drop();
  }
  return *this;
}

void lease::release() noexcept {
  holding_.drop();
  if (mutation_gate* gate = std::exchange(gate_, nullptr)) gate->release(transaction_);
}

lease_hold::lease_hold(const lease& under) : gate_(under.gate_) {
  ensure(under.held(), "a mutating request is sent under a lease that is held");
  stamp_ = std::make_unique<lease_stamp>(gate_->stamp(under.transaction()));
}

lease_hold& lease_hold::operator=(lease_hold&& other) noexcept {
  if (this != &other) {
    answered();
    gate_ = std::exchange(other.gate_, nullptr);
    stamp_ = std::move(other.stamp_);
  }
  return *this;
}

void lease_hold::answered() noexcept {
  if (mutation_gate* gate = std::exchange(gate_, nullptr)) gate->answered(stamp_->transaction);
}

namespace detail {

bool enter_awaiter::await_ready() {
  given_ = gate_.try_enter();
  return given_.has_value();
}

lease enter_awaiter::await_resume() noexcept {
  return lease(std::move(*given_), gate_.queue_, where_);
}

void enter_awaiter::wait(promise_base& entering, std::source_location where) noexcept {
  suspend(entering, "an open mutation gate", where, this);
  gate_.entering_.push_back(*this);
}

std::string enter_awaiter::describe_wait(std::chrono::nanoseconds) const {
  return "the mutation gate of " + gate_.origin() + ", " +
         (gate_.state().open() ? "open"
                               : "closed for epoch " + to_string(gate_.state().last_epoch()));
}

bool quiesced_awaiter::await_ready() const noexcept {
  const gate_state& state = gate_.state();
  return state.open() || state.last_epoch() != epoch_ || state.quiesced(epoch_);
}

void quiesced_awaiter::wait(promise_base& waiting, std::source_location where) noexcept {
  suspend(waiting, "the last lease of its mutation gate", where, this);
  gate_.quiescing_.push_back(*this);
}

std::string quiesced_awaiter::describe_wait(std::chrono::nanoseconds) const {
  return "the leases of " + gate_.origin() + " to settle for epoch " + to_string(epoch_) + "; " +
         gate_.oldest();
}

result<void> quiesced_awaiter::await_resume() const {
  if (gate_.state().quiesced(epoch_)) return {};
  return failure(errc::conflict, "gate of " + gate_.origin() + ": not closed for epoch " +
                                     to_string(epoch_) + ", the last one was " +
                                     to_string(gate_.state().last_epoch()));
}

} // namespace detail

mutation_gate::mutation_gate(run_queue& queue, shared_name origin, std::uint64_t instance)
    : queue_(queue), origin_(std::move(origin)), instance_(instance) {}

mutation_gate::~mutation_gate() {
  ensure(state_.unsettled() == 0, "no lease outlives the gate that gave it out");
}

std::optional<lease> mutation_gate::try_enter() {
  if (!state_.open() || !entering_.empty()) return std::nullopt;
  return lease(*this, state_.enter(queue_.now()));
}

lease_stamp mutation_gate::stamp(std::uint64_t transaction) {
  return {origin_,
          instance_,
          transaction,
          state_.sent(transaction),
          state_.granted_at(transaction),
          state_.settled_before()};
}

void mutation_gate::release(std::uint64_t transaction) noexcept {
  state_.released(transaction);
  state_changed();
}

void mutation_gate::answered(std::uint64_t transaction) noexcept {
  state_.answered(transaction);
  state_changed();
}

void mutation_gate::state_changed() noexcept {
  while (auto* waiter = quiescing_.front()) {
    if (!waiter->await_ready()) break;
    waiter->wake();
  }
  while (state_.open()) {
    auto* waiter = entering_.front();
    if (waiter == nullptr) break;
    waiter->given_.emplace(lease(*this, state_.enter(queue_.now())));
    waiter->wake();
  }
}

bool mutation_gate::close(epoch_id epoch, std::chrono::nanoseconds hold_limit) {
  if (!state_.close(epoch, queue_.now(), hold_limit)) return false;
  queue_.timers().arm(*this, state_.hold_deadline());
  state_changed();
  return true;
}

bool mutation_gate::open(epoch_id epoch) {
  const bool held = state_.resume(epoch);
  if (state_.open()) disarm();
  state_changed();
  return held;
}

void mutation_gate::abort(epoch_id epoch) {
  state_.abort(epoch);
  if (state_.open()) disarm();
  state_changed();
}

void mutation_gate::expired() noexcept {
  if (state_.expire(queue_.now()))
    state_changed();
  else if (!state_.open() && queue_.now() < state_.hold_deadline())
    queue_.timers().arm(*this, state_.hold_deadline());
}

std::string mutation_gate::oldest() const {
  const auto oldest = state_.oldest(queue_.now());
  if (!oldest) return "no lease";
  std::string text = "transaction " + std::to_string(oldest->id) + " of " + *origin_ + ", " +
                     std::to_string(oldest->age.count() / 1'000'000) + " ms old: ";
  text += oldest->unanswered > 0 ? std::to_string(oldest->unanswered) + " requests unanswered"
                                 : std::string("held, no request under way");
  return text;
}

} // namespace weir
