#include "actors/runtime/detail/graph_core.hpp"

#include "actors/runtime/context.hpp"

namespace weir::detail {

void graph_core::enter(const std::string& name, address where) {
  const std::lock_guard guard(mutex_);
  directory_[name] = std::move(where);
}

address graph_core::find(const std::string& name) const {
  const std::lock_guard guard(mutex_);
  const auto place = directory_.find(name);
  return place != directory_.end() ? place->second : address();
}

address graph_core::look_up(const std::string& asking, const std::string& name) {
  const std::lock_guard guard(mutex_);
  const auto place = directory_.find(name);
  if (place != directory_.end()) return place->second;
  if (!sealed_) missed_.emplace_back(asking, name);
  return address();
}

std::vector<std::pair<std::string, std::string>> graph_core::seal_directory() {
  const std::lock_guard guard(mutex_);
  sealed_ = true;
  return std::move(missed_);
}

void graph_core::failed(const std::string& actor, error reason) {
  if (reason.origin.empty()) reason.origin = actor;
  env_.log(log_level::error, actor, to_string(reason));
  {
    const std::lock_guard guard(mutex_);
    if (!failure_) failure_ = std::move(reason);
    over_ = true;
  }
  changed_.notify_all();
}

void graph_core::finished() {
  {
    const std::lock_guard guard(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

void graph_core::started(const std::string& actor) {
  const std::lock_guard guard(mutex_);
  running_[actor] = true;
}

void graph_core::ended(const std::string& actor) {
  // Notified under the lock: whoever waits may destroy this object as soon as it is free.
  const std::lock_guard guard(mutex_);
  running_[actor] = false;
  changed_.notify_all();
}

result<void> graph_core::wait_finished(std::optional<std::chrono::nanoseconds> limit) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return this->over(); };
  if (!limit)
    changed_.wait(lock, over);
  else if (!changed_.wait_for(lock, *limit, over))
    return failure(errc::timed_out,
                   "the run did not end within " + to_string(deadline_after{*limit}));
  if (failure_) return failure(*failure_);
  return {};
}

bool graph_core::wait_ended(const std::string& actor, std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this, &actor] {
    const auto place = running_.find(actor);
    return place == running_.end() || !place->second;
  });
}

std::optional<result<void>> graph_core::outcome() const {
  const std::lock_guard guard(mutex_);
  if (failure_) return failure(*failure_);
  if (over_) return result<void>();
  return std::nullopt;
}

bool graph_core::running(const std::string& actor) const {
  const std::lock_guard guard(mutex_);
  const auto place = running_.find(actor);
  return place != running_.end() && place->second;
}

std::optional<error> graph_core::first_failure() const {
  const std::lock_guard guard(mutex_);
  return failure_;
}

} // namespace weir::detail

namespace weir {

world& context::env() const noexcept {
  return graph_->env();
}
incarnation context::life() const noexcept {
  return graph_->life();
}
detail::address context::find_address(const std::string& name) const {
  return graph_->look_up(*name_, name);
}

} // namespace weir
