#include "examples/weir/compatibility.hpp"

#include "examples/weir/config_value.hpp"

#include <utility>

namespace weir {

namespace {

std::string note_on(const config_key& key) {
  if (key.resume == on_resume::must_match)
    return "set it back, or start a fresh run in another checkpointing.checkpoint_dir";
  if (key.path.starts_with("async_rl.sampler.")) return "unfinished groups are stamped again";
  if (key.path == "data.train.path") return "the content must be the same; its hashes are compared";
  if (key.path == "policy.model") return "not read again: weights come from the bundle";
  return "takes effect from the restored bundle on";
}

} // namespace

std::vector<config_change> compatibility(const run_config& old_config,
                                         const run_config& new_config) {
  std::vector<config_change> changes;
  for (const config_key& key : config_keys()) {
    std::string before = format(key, old_config);
    std::string after = format(key, new_config);
    if (before == after) continue;
    changes.push_back({.path = std::string(key.path),
                       .old_value = std::move(before),
                       .new_value = std::move(after),
                       .allowed = key.resume == on_resume::may_change,
                       .note = note_on(key)});
  }
  return changes;
}

std::string to_string(const config_change& change) {
  return change.path + ": " + change.old_value + " -> " + change.new_value +
         (change.allowed ? " (" : " is refused: ") + change.note + (change.allowed ? ")" : "");
}

result<void> require_compatible(const std::vector<config_change>& changes) {
  std::string text;
  for (const config_change& change : changes) {
    if (change.allowed) continue;
    if (!text.empty()) text += '\n';
    text += to_string(change);
  }
  if (text.empty()) return {};
  return failure(errc::conflict, std::move(text));
}

} // namespace weir
