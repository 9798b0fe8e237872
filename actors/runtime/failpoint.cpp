#include "actors/runtime/failpoint.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace weir {

namespace {

struct armed_point {
  bool kills = false;
  detail::failpoint_hit hit;
  std::uint64_t at = 0;    ///< The hit that counts; 0: each.
  std::uint64_t every = 1; ///< Or each so many.
  std::uint64_t reached = 0;
};

struct registry {
  std::mutex mutex;
  std::map<std::string, armed_point, std::less<>> points;
};

/// Process-wide on purpose: see the header.
registry& points_of_this_process() {
  static registry points;
  return points;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> units{
      {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};
  const auto digits = text.find_first_not_of("0123456789");
  if (digits == std::string_view::npos) return std::nullopt;
  const auto count = parse_number(text.substr(0, digits));
  for (const auto& [unit, nanoseconds] : units) {
    if (count && text.substr(digits) == unit && *count <= 1'000'000'000)
      return std::chrono::nanoseconds(static_cast<std::int64_t>(*count) * nanoseconds);
  }
  return std::nullopt;
}

result<std::pair<std::string, armed_point>> parse_point(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return failure(errc::invalid_argument, "failpoint '" + std::string(text) +
                                               "': " + std::string(why) +
                                               "; write name=kill, error, park or delay:50ms, "
                                               "and @3 for the third time only, or %3 "
                                               "for every third");
  };
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return bad("no name or no action");
  armed_point point;
  std::string_view action = text.substr(equals + 1);
  if (const auto at = action.find('@'); at != std::string_view::npos) {
    const auto number = parse_number(action.substr(at + 1));
    if (!number || *number == 0) return bad("the count after @ is not a positive number");
    point.at = *number;
    action = action.substr(0, at);
  } else if (const auto every = action.find('%'); every != std::string_view::npos) {
    const auto number = parse_number(action.substr(every + 1));
    if (!number || *number == 0) return bad("the count after % is not a positive number");
    point.every = *number;
    action = action.substr(0, every);
  }
  if (action == "kill") {
    point.kills = true;
  } else if (action == "error") {
    point.hit.action = detail::failpoint_action::error;
  } else if (action == "park") {
    point.hit.action = detail::failpoint_action::park;
  } else if (action.starts_with("delay:")) {
    const auto duration = parse_duration(action.substr(6));
    if (!duration) return bad("the delay is not a number with ns, us, ms or s");
    point.hit = {detail::failpoint_action::delay, *duration};
  } else {
    return bad("unknown action");
  }
  return std::pair(std::string(text.substr(0, equals)), point);
}

} // namespace

result<void> arm_failpoints(std::string_view specification) {
  std::map<std::string, armed_point, std::less<>> parsed;
  while (!specification.empty()) {
    const auto comma = specification.find(',');
    auto point = parse_point(specification.substr(0, comma));
    if (!point) return failure(std::move(point.error()));
    parsed.insert_or_assign(std::move(point->first), point->second);
    specification =
        comma == std::string_view::npos ? std::string_view() : specification.substr(comma + 1);
  }
  registry& known = points_of_this_process();
  const std::lock_guard guard(known.mutex);
  for (const auto& [name, point] : parsed)
    known.points.insert_or_assign(name, point);
  detail::failpoints_armed.store(!known.points.empty(), std::memory_order_relaxed);
  return {};
}

void disarm_failpoints() {
  registry& known = points_of_this_process();
  const std::lock_guard guard(known.mutex);
  known.points.clear();
  detail::failpoints_armed.store(false, std::memory_order_relaxed);
}

namespace detail {

std::atomic<bool> failpoints_armed = false;

failpoint_hit reach_failpoint(std::string_view name) {
  registry& known = points_of_this_process();
  const std::lock_guard guard(known.mutex);
  const auto place = known.points.find(name);
  if (place == known.points.end()) return {};
  armed_point& point = place->second;
  ++point.reached;
  if (point.at != 0 && point.reached != point.at) return {};
  if (point.reached % point.every != 0) return {};
  if (point.kills) ::kill(::getpid(), SIGKILL);
  return point.hit;
}

error failpoint_error(std::string_view name) {
  return error{errc::io_failed, "failpoint " + std::string(name) + " was armed to fail"};
}

result<void> hit_armed_failpoint(std::string_view name) {
  const failpoint_hit hit = reach_failpoint(name);
  if (hit.action == failpoint_action::delay) std::this_thread::sleep_for(hit.delay);
  if (hit.action == failpoint_action::error || hit.action == failpoint_action::park)
    return failure(failpoint_error(name));
  return {};
}

void failpoint_awaiter::wait(promise_base& parent, std::source_location where) {
  parent.waiting(hit_.action == failpoint_action::park ? "a failpoint, for ever" : "a failpoint",
                 where);
  waiting_ = &parent;
  if (hit_.action == failpoint_action::delay)
    parent.queue().timers().arm(*this, parent.queue().now() + hit_.delay);
}

void failpoint_awaiter::expired() noexcept {
  waiting_->queue().wake(*waiting_);
}

} // namespace detail
} // namespace weir
