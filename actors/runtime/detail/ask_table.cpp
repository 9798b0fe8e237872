#include "actors/runtime/detail/ask_table.hpp"

#include "actors/runtime/detail/task_dump.hpp"
#include "actors/runtime/watchdog_state.hpp"
#include "messages/rule.hpp"

namespace weir::detail {

ask_waiter::~ask_waiter() {
  if (table_ != nullptr) table_->abandon(slot_);
}

std::string ask_waiter::described() const {
  return name_of(to_) + " did not answer " + std::string(message_name(request_->type()));
}

std::string ask_waiter::describe_wait(std::chrono::nanoseconds now) const {
  return name_of(to_) + " to answer " + std::string(message_name(request_->type())) + ", " +
         age_text(now - (due() - limit_.duration)) + " so far";
}

void ask_waiter::begin(promise_base& asking, std::source_location where) {
  asking.waiting("an answer", where, this);
  asking_ = &asking;
  ask_table* table = asking.queue().host().host_asks();
  ensure(table != nullptr, "asks are made by coroutines of actors");
  if (!to_) {
    settle({nullptr, std::make_shared<const error>(
                         error{errc::unavailable, "the handle is not wired: nobody to ask"})});
    return;
  }
  if (limit_.duration.count() <= 0) {
    settle({nullptr, std::make_shared<const error>(error{
                         errc::timed_out, "the deadline of the request has passed already"})});
    return;
  }
  const std::uint32_t index = table->open(*this);
  table_ = table;
  slot_ = index;
  if (limit_.duration != unlimited.duration)
    asking.queue().timers().arm(*this, table->slots_[index].since + limit_.duration);
  table->send(*this, index);
}

void ask_waiter::settle(answer given) noexcept {
  outcome_ = std::move(given);
  table_ = nullptr;
  disarm();
  asking_->queue().call(*asking_);
}

void ask_waiter::expired() noexcept {
  table_->abandon(slot_);
  settle({nullptr, std::make_shared<const error>(
                       error{errc::timed_out, described() + " within " + to_string(limit_)})});
}

result<payload_ptr> ask_waiter::take_outcome() {
  if (outcome_.content != nullptr) return std::move(outcome_.content);
  ensure(outcome_.reason != nullptr, "an ask ends with an answer or a reason");
  error reason = *outcome_.reason;
  if (reason.origin.empty()) reason.origin = name_of(to_);
  if (reason.subject.empty()) reason.subject = message_name(request_->type());
  return failure(std::move(reason));
}

std::uint32_t ask_table::open(ask_waiter& waiter) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  slot& opened = slots_[index];
  opened.waiter = &waiter;
  opened.hold = std::move(waiter.hold_);
  opened.to = waiter.to_;
  opened.type = waiter.request_->type();
  opened.since = queue_.now();
  opened.generation = static_cast<std::uint32_t>(queue_.next_number());
  opened.used = true;
  ++pending_;
  return index;
}

void ask_table::send(const ask_waiter& waiter, std::uint32_t index) {
  const slot& from = slots_[index];
  parcel sent;
  envelope& header = sent.value.header;
  if (waiter.passed_on_ != nullptr) {
    header = *waiter.passed_on_;
  } else {
    header.deadline_ns = (from.since + waiter.limit_.duration).count();
    header.life = life_;
    header.sender = asker_;
    if (from.hold.present()) header.lease = from.hold.stamp();
  }
  header.request_id = (static_cast<std::uint64_t>(from.generation) << 32) | index;
  sent.value.content = waiter.request_;
  post(waiter.to_, self_, std::move(sent));
}

void ask_table::abandon(std::uint32_t index) noexcept {
  slot& left = slots_[index];
  left.waiter = nullptr;
  if (!left.hold.present()) close(index);
}

void ask_table::close(std::uint32_t index) noexcept {
  slot& closed = slots_[index];
  closed.waiter = nullptr;
  closed.to = address();
  closed.used = false;
  --pending_;
  free_.push_back(index);
  // Last: settling a transaction may wake those who wait at the gate.
  closed.hold.answered();
}

void ask_table::answered(std::uint64_t request_id, answer given) {
  const auto index = static_cast<std::uint32_t>(request_id);
  const auto generation = static_cast<std::uint32_t>(request_id >> 32);
  const bool is_open = index < slots_.size() && slots_[index].used;
  const bool is_its_own =
      is_open && (slots_[index].generation == generation || !enforced(rule::answers_matched_by_id));
  if (!is_its_own) {
    ++late_answers_;
    return;
  }
  ask_waiter* waiter = slots_[index].waiter;
  if (waiter == nullptr)
    ++late_answers_;
  else
    waiter->settle(std::move(given));
  close(index);
}

void ask_table::add_waits(std::chrono::nanoseconds age, std::vector<long_wait>& waits) const {
  const std::chrono::nanoseconds now = queue_.now();
  for (const slot& each : slots_) {
    if (!each.used || now - each.since < age) continue;
    const std::string of = name_of(each.to);
    std::string text = "waits for " + of + " to answer " + std::string(message_name(each.type));
    if (each.waiter == nullptr) text += " (only its lease does)";
    waits.push_back({of, std::move(text), now - each.since});
  }
}

} // namespace weir::detail
