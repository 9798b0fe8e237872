#include "examples/weir/unavailable.hpp"

#include "examples/weir/config_value.hpp"

namespace weir {

namespace {

struct gap {
  std::string_view path;
  bool (*asked)(const run_config&);
  std::string_view instead;
};

constexpr gap gaps[] = {
    {"grpo.max_rollout_turns",
     [](const run_config& config) { return config.grpo.max_rollout_turns > 1; }, "use 1"},
    {"logger.log_dir", [](const run_config& config) { return config.logger.log_dir.has_value(); },
     "use null; logs go to the standard streams"},
    {"logger.metrics_port",
     [](const run_config& config) { return config.logger.metrics_port.has_value(); },
     "use null; metrics.jsonl has the same figures"},
    {"logger.trace", [](const run_config& config) { return config.logger.trace; }, "use false"},
    {"policy.tokenizer", [](const run_config& config) { return config.policy.tokenizer != "byte"; },
     "use byte"},
};

} // namespace

std::vector<std::string> unavailable(const run_config& config) {
  std::vector<std::string> lines;
  for (const gap& one : gaps) {
    if (!one.asked(config)) continue;
    const config_key* key = find_key(one.path);
    ensure(key != nullptr, "a gap is about a key of the table");
    std::string line(one.path);
    line.append(" (").append(format(*key, config)).append(") is not available in this build; ");
    lines.push_back(line.append(one.instead));
  }
  return lines;
}

} // namespace weir
