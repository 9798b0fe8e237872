#include "actors/runtime/supervisor.hpp"

#include <utility>

namespace weir {

supervisor::supervisor(context ctx, std::shared_ptr<detail::group_members> group)
    : actor(std::move(ctx)), group_(std::move(group)),
      state_(group_->name, group_->options, group_->names) {}

supervisor::~supervisor() {
  for (std::size_t member = 0; member < group_->where.size(); ++member)
    send_leave(member, "its group " + name() + " ended");
}

task<void> supervisor::run() {
  // The graph begins the first lives.
  if (std::exchange(group_->begun, true)) perform(state_.renew(now()), name() + " was restarted");
  while (true) {
    const std::uint64_t seen = changes_;
    begin_due();
    const auto due = state_.next_due();
    if (due)
      std::ignore = co_await with_deadline(changed(seen), within(*due - now()));
    else
      co_await changed(seen);
  }
}

task<void> supervisor::changed(std::uint64_t seen) {
  while (changes_ == seen)
    co_await changed_.raised();
}

void supervisor::life_ended(std::size_t member, std::optional<error> failed) {
  if (failed) {
    const std::string why = group_->names[member] + " failed: " + failed->text;
    perform(state_.failed(member, std::move(*failed), now()), why);
  } else {
    state_.left(member);
  }
  ++changes_;
  changed_.raise();
}

void supervisor::perform(const supervision_state::decision& wanted, const std::string& why) {
  if (wanted.give_up) {
    fail(*wanted.give_up);
    return;
  }
  for (const std::size_t member : wanted.leave)
    send_leave(member, why);
}

void supervisor::begin_due() {
  for (const std::size_t member : state_.begin_due(now())) {
    detail::parcel sent;
    sent.kind = detail::parcel_kind::begin;
    detail::post(group_->where[member], detail::address(), std::move(sent));
  }
}

void supervisor::send_leave(std::size_t member, const std::string& why) const {
  detail::parcel sent;
  sent.kind = detail::parcel_kind::leave;
  sent.reason = std::make_shared<const error>(error{errc::unavailable, why, name()});
  detail::post(group_->where[member], detail::address(), std::move(sent));
}

std::chrono::nanoseconds supervisor::now() const {
  return std::chrono::nanoseconds(clock().now());
}

} // namespace weir
