#include "actors/checkpoint/schedule_state.hpp"

#include "messages/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weir {

std::string_view to_string(save_reason reason) noexcept {
  constexpr std::array<std::string_view, 6> names = {"none",      "interval", "period",
                                                     "last_step", "deadline", "signal"};
  return names[static_cast<std::size_t>(reason)];
}

schedule_state::schedule_state(save_schedule options, std::int64_t started_ns)
    : options_(options), started_ns_(options.started_ns.value_or(started_ns)),
      newest_attempt_ns_(started_ns) {
  ensure(!options_.save_interval_ns || *options_.save_interval_ns > 0,
         "an interval between saves is positive");
}

save_reason schedule_state::step_consumed(std::uint64_t step, std::int64_t now) {
  if (options_.steps_max && step >= *options_.steps_max) return data_ended(now);
  if (options_.save_period != 0 && step % options_.save_period == 0)
    return ask(save_reason::period, now);
  return save_reason::none;
}

save_reason schedule_state::data_ended(std::int64_t now) {
  job_ended_ = true;
  return ask(save_reason::last_step, now);
}

save_reason schedule_state::signalled(std::int64_t now) {
  return ask(save_reason::signal, now);
}

save_reason schedule_state::tick(std::int64_t now) {
  const auto due = next_tick();
  if (!due || now < *due) return save_reason::none;
  if (options_.must_save_by_ns && !deadline_asked_ &&
      now >= started_ns_ + *options_.must_save_by_ns) {
    deadline_asked_ = true;
    return ask(save_reason::deadline, now);
  }
  return ask(save_reason::interval, now);
}

std::optional<std::int64_t> schedule_state::next_tick() const {
  std::optional<std::int64_t> due;
  if (!options_.enabled || stop_ != stop_reason::none) return due;
  if (options_.must_save_by_ns && !deadline_asked_) due = started_ns_ + *options_.must_save_by_ns;
  if (options_.save_interval_ns && asked_ == save_reason::none) {
    const std::int64_t interval_due = newest_attempt_ns_ + *options_.save_interval_ns;
    due = due ? std::min(*due, interval_due) : interval_due;
  }
  return due;
}

save_reason schedule_state::published(std::int64_t now) {
  return ended(true, now);
}

save_reason schedule_state::failed(std::int64_t now) {
  return ended(false, now);
}

stop_reason schedule_state::stop() const {
  return asked_ == save_reason::none ? stop_ : stop_reason::none;
}

save_reason schedule_state::ask(save_reason reason, std::int64_t now) {
  const bool is_last = reason >= save_reason::last_step;
  if (!options_.enabled) {
    // Nothing to save: the run only has to end.
    if (is_last && stop_ == stop_reason::none)
      stop_ = job_ended_ ? stop_reason::job_done : stop_reason::unfinished;
    return save_reason::none;
  }
  if (stop_ != stop_reason::none) return save_reason::none;
  if (asked_ != save_reason::none) {
    // What the running save does not serve waits for the next one. An interval is served by any.
    if (reason > save_reason::interval) waiting_ = std::max(waiting_, reason);
    return save_reason::none;
  }
  asked_ = reason;
  asked_at_end_ = job_ended_;
  newest_attempt_ns_ = now;
  return reason;
}

save_reason schedule_state::ended(bool is_published, std::int64_t now) {
  ensure(asked_ != save_reason::none, "a save ends only after it was asked for");
  const save_reason served = std::exchange(asked_, save_reason::none);
  const save_reason next = std::exchange(waiting_, save_reason::none);
  if (is_published && asked_at_end_) {
    stop_ = stop_reason::job_done;
    return save_reason::none;
  }
  const bool is_end_unsaved = job_ended_ && !asked_at_end_;
  if (served >= save_reason::last_step && !is_end_unsaved) {
    // A more urgent reason that came meanwhile gives a failed save its second chance.
    if (!is_published && next > served) return ask(next, now);
    stop_ = is_published ? stop_reason::unfinished : stop_reason::save_failed;
    return save_reason::none;
  }
  return next == save_reason::none ? next : ask(next, now);
}

} // namespace weir
