#include "examples/weir/step_report.hpp"

#include <cstdio>

namespace weir {

namespace {

/// The inside of a JSON object, member by member.
class members {
public:
  void add(std::string_view name, const std::string& value) {
    if (!text_.empty()) text_ += ", ";
    text_.append("\"").append(name).append("\": ").append(value);
  }
  void add(std::string_view name, std::uint64_t value) { add(name, std::to_string(value)); }
  void add(std::string_view name, double value, const char* pattern) {
    char digits[64];
    std::snprintf(digits, sizeof digits, pattern, value);
    add(name, std::string(digits));
  }
  [[nodiscard]] std::string object() const { return "{" + text_ + "}"; }

private:
  std::string text_;
};

std::string object_of(const std::vector<step_report::named_count>& counts) {
  members inside;
  for (const auto& [name, count] : counts)
    inside.add(name, count);
  return inside.object();
}

std::string list_of(const std::vector<std::uint64_t>& numbers) {
  std::string text;
  for (const std::uint64_t number : numbers)
    text.append(text.empty() ? "" : ", ").append(std::to_string(number));
  return "[" + text + "]";
}

std::string object_of(const occupancy& permits) {
  members inside;
  inside.add("taken", permits.taken);
  inside.add("most", permits.most);
  return inside.object();
}

} // namespace

std::string to_json(const step_report& report) {
  members line;
  line.add("event", "\"step\"");
  line.add("incarnation", report.incarnation);
  line.add("step", report.step);
  line.add("reward", report.reward, "%.6f");
  line.add("loss", report.loss, "%.6f");
  line.add("grad_norm", report.grad_norm, "%.6f");
  line.add("kl", report.kl, "%.6f");
  line.add("clip_fraction", report.clip_fraction, "%.6f");
  line.add("staleness", report.lag_mean, "%.4f");
  line.add("groups_by_lag", list_of(report.staleness));
  line.add("groups", report.groups);
  line.add("chunks", report.chunks);
  line.add("tokens", report.tokens);
  line.add("masked_tokens", report.masked_tokens);
  line.add("tokens_per_second", report.tokens_per_second, "%.1f");
  for (const auto& [name, count] : report.events)
    line.add(name, count);
  line.add("dropped", object_of(report.dropped));
  line.add("in_flight", object_of(report.in_flight));
  line.add("buffered", object_of(report.buffered));
  line.add("train_ns", report.train_ns);
  line.add("wait_ns", report.wait_ns);
  line.add("waited_ns", object_of(report.waits));
  return line.object();
}

} // namespace weir
