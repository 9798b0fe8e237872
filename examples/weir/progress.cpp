#include "examples/weir/progress.hpp"

#include <array>
#include <cstdio>

namespace weir {

namespace {

/// Back to the first column, and clear.
constexpr const char* over = "\r\x1b[2K";

std::string fixed(const char* pattern, double number) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), pattern, number);
  return buffer.data();
}

std::string duration(double seconds) {
  constexpr double minute = 60;
  constexpr double hour = 3600;
  if (seconds < 2 * minute) return fixed("%.0f s", seconds);
  if (seconds < 2 * hour) return fixed("%.0f min", seconds / minute);
  return fixed("%.1f h", seconds / hour);
}

std::string hold(double microseconds) {
  constexpr double millisecond = 1000;
  return microseconds < 10 * millisecond ? fixed("%.0f us", microseconds)
                                         : fixed("%.1f ms", microseconds / millisecond);
}

} // namespace

std::string to_string(const progress& state) {
  std::string text("step ");
  text += std::to_string(state.step);
  if (state.max_steps > 0) text.append("/").append(std::to_string(state.max_steps));
  text += fixed("  reward %.3f", state.reward);
  text += fixed("  loss %.4f", state.loss);
  text += fixed("  %.0f tok/s", state.tokens_per_second);
  text += fixed("  stale %.1f", state.staleness);
  text += "  in flight " + std::to_string(state.groups_in_flight);
  text += "  buffered " + std::to_string(state.groups_buffered);
  if (state.groups_dropped > 0) text += "  dropped " + std::to_string(state.groups_dropped);
  if (state.last_hold_us) text += "  hold " + hold(*state.last_hold_us);
  if (state.checkpoint_age_s) text += "  saved " + duration(*state.checkpoint_age_s) + " ago";
  return text;
}

std::string progress_line::cut(std::string text) const {
  if (columns_ > 0 && text.size() >= columns_) text.resize(columns_ - 1);
  return text;
}

std::string progress_line::update(const progress& state) {
  if (terminal_) {
    shown_ = cut(to_string(state));
    return over + shown_;
  }
  if (step_ == state.step) return "";
  step_ = state.step;
  return to_string(state) + "\n";
}

std::string progress_line::above(const std::string& text) {
  if (!terminal_ || shown_.empty()) return text + "\n";
  return over + text + "\n" + shown_;
}

std::string progress_line::finish() {
  if (!terminal_ || shown_.empty()) return "";
  shown_.clear();
  return "\n";
}

} // namespace weir
