#include "examples/weir/step_metrics.hpp"

#include <charconv>
#include <cstdio>

namespace weir {

namespace {

/// The number after `"key": `; nothing if it is missing or the line ends in it.
template <class Number>
std::optional<Number> number_of(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const first = line.data() + at + key.size();
  const char* const last = line.data() + line.size();
  Number number = 0;
  const auto [end, code] = std::from_chars(first, last, number);
  if (code != std::errc{} || end == last) return std::nullopt;
  return number;
}

template <class... Values>
std::string formatted(const char* pattern, Values... values) {
  constexpr std::size_t longest = 512;
  char text[longest];
  const int length = std::snprintf(text, longest, pattern, values...);
  return {text, static_cast<std::size_t>(length)};
}

} // namespace

std::optional<step_metric> parse_step_metric(std::string_view line) {
  if (!line.starts_with("{\"event\": \"step\",") || !line.ends_with('}')) return std::nullopt;
  const auto step = number_of<std::uint64_t>(line, "\"step\": ");
  const auto reward = number_of<double>(line, "\"reward\": ");
  if (!step || !reward) return std::nullopt;
  return step_metric{.step = *step, .reward = *reward};
}

bool learning_summary::learned() const {
  return last_tenth >= learned_reward_min && last_tenth >= first_tenth + learned_gain_min;
}

void step_history::read(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    if (const auto metric = parse_step_metric(lines.substr(0, end))) {
      rewards_.erase(rewards_.lower_bound(metric->step), rewards_.end());
      rewards_[metric->step] = metric->reward;
    }
    if (end == std::string_view::npos) return;
    lines.remove_prefix(end + 1);
  }
}

std::optional<learning_summary> step_history::summary() const {
  const std::size_t tenth = rewards_.size() / 10;
  if (tenth == 0) return std::nullopt;
  learning_summary found{.steps = rewards_.size()};
  auto first = rewards_.begin();
  auto last = rewards_.rbegin();
  for (std::size_t i = 0; i < tenth; ++i) {
    found.first_tenth += (first++)->second / static_cast<double>(tenth);
    found.last_tenth += (last++)->second / static_cast<double>(tenth);
  }
  return found;
}

std::string to_text(const learning_summary& summary) {
  return formatted(
      "steps                    %llu\n"
      "mean reward, first tenth %.3f\n"
      "mean reward, last tenth  %.3f\n"
      "learned                  %s (last tenth at least %.1f, and %.1f above the first)",
      static_cast<unsigned long long>(summary.steps), summary.first_tenth, summary.last_tenth,
      summary.learned() ? "yes" : "no", learned_reward_min, learned_gain_min);
}

std::string to_json(const learning_summary& summary) {
  return formatted("{\"event\": \"summary\", \"steps\": %llu, \"first_tenth\": %.6f, "
                   "\"last_tenth\": %.6f, \"learned\": %s}",
                   static_cast<unsigned long long>(summary.steps), summary.first_tenth,
                   summary.last_tenth, summary.learned() ? "true" : "false");
}

} // namespace weir
