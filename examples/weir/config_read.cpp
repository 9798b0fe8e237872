#include "examples/weir/config_yaml.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace weir {

namespace {

/// Levenshtein.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t at = 0; at < left.size(); ++at) {
    std::size_t diagonal = std::exchange(row[0], at + 1);
    for (std::size_t to = 0; to < right.size(); ++to) {
      const std::size_t replaced = diagonal + (left[at] == right[to] ? 0 : 1);
      diagonal = row[to + 1];
      row[to + 1] = std::min({replaced, row[to] + 1, row[to + 1] + 1});
    }
  }
  return row.back();
}

std::string_view last_word(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

/// The known key that an unknown one most likely means, or null: the right word in the wrong block,
/// else the nearest path within a third of its length.
const config_key* nearest_key(std::string_view unknown) {
  const config_key* nearest = nullptr;
  std::size_t least = std::max<std::size_t>(3, unknown.size() / 3) + 1;
  for (const config_key& key : config_keys()) {
    const bool same_word = last_word(key.path) == last_word(unknown);
    const std::size_t distance = same_word
                                     ? std::min<std::size_t>(1, edit_distance(unknown, key.path))
                                     : edit_distance(unknown, key.path);
    if (distance >= least) continue;
    least = distance;
    nearest = &key;
  }
  return nearest;
}

const renamed_key* find_renamed(std::string_view path) {
  const auto keys = renamed_keys();
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [path](const renamed_key& key) { return key.old_path == path; });
  return found == keys.end() ? nullptr : &*found;
}

/// The longest of them that the path is, or lies in; null if none is.
const foreign_block* find_foreign(std::string_view path) {
  const foreign_block* found = nullptr;
  for (const foreign_block& block : foreign_blocks()) {
    const bool fits = path == block.path || path.starts_with(std::string(block.path) + ".");
    if (fits && (found == nullptr || found->path.size() < block.path.size())) found = &block;
  }
  return found;
}

bool is_block(std::string_view path) {
  const auto keys = config_keys();
  return std::any_of(keys.begin(), keys.end(), [path](const config_key& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) &&
           key.path[path.size()] == '.';
  });
}

std::string resolved(const std::string& path, const std::string& directory) {
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

/// Of a program or a shared object: where it is, if it has a slash; else its loader looks for it.
std::string resolved_program(const std::string& program, const std::string& directory) {
  if (program.find('/') == std::string::npos) return program;
  const std::string path = resolved(program, directory);
  return path.find('/') == std::string::npos ? "./" + path : path;
}

/// Applies settings one by one and collects what is wrong with them.
class reading {
public:
  void apply(const std::vector<setting>& settings, const std::string& directory) {
    for (const setting& one : settings)
      apply_one(one, directory);
  }
  void refuse(std::string finding) { findings_.push_back(std::move(finding)); }

  result<checked_config> finish(const config_source& source);

private:
  void apply_one(const setting& one, const std::string& directory);
  void refuse_unknown(const setting& one);
  void resolve(const config_key& key, const std::string& directory);
  void follow(const std::string& directory);
  [[nodiscard]] bool written(std::string_view path) const { return origins_.contains(path); }

  run_config config_;
  std::map<std::string, std::string, std::less<>> origins_;
  std::set<std::string_view> foreign_; ///< Blocks that were refused already.
  std::vector<std::string> findings_;
};

/// Keys of other systems by their names here, blocks that have none once; else the nearest key.
void reading::refuse_unknown(const setting& one) {
  const std::string head = one.place + ": " + one.path + ": ";
  if (const renamed_key* old = find_renamed(one.path))
    return refuse(head + "is called " + std::string(old->path) + " here");
  if (const foreign_block* block = find_foreign(one.path)) {
    if (foreign_.insert(block->path).second)
      refuse(one.place + ": " + std::string(block->path) +
             ": has no counterpart here: " + std::string(block->instead));
    return;
  }
  if (is_block(one.path)) return refuse(head + "is a block; expected keys below it");
  const config_key* nearest = nearest_key(one.path);
  refuse(head + "unknown key" +
         (nearest == nullptr ? "; \"weir check --keys\" lists all"
                             : "; did you mean " + std::string(nearest->path) + "?"));
}

void reading::apply_one(const setting& one, const std::string& directory) {
  const std::string head = one.place + ": " + one.path + ": ";
  const config_key* key = find_key(one.path);
  if (key == nullptr) return refuse_unknown(one);
  if (one.value.text.starts_with("${") && !one.value.quoted)
    return refuse(head + one.value.text +
                  " refers to another key, which is not done here; write its value, or leave the "
                  "key out");
  if (auto assigned = assign(*key, one.value, config_); !assigned)
    return refuse(head + assigned.error().text);
  origins_[one.path] = one.place;
  resolve(*key, directory);
}

void reading::resolve(const config_key& key, const std::string& directory) {
  if (key.role == text_role::plain || key.role == text_role::bytes) return;
  if (const auto* text = std::get_if<config_field<std::string>>(&key.field)) {
    std::string& value = text->write(config_);
    const run_config defaults;
    if (key.role == text_role::named && value == text->read(defaults)) return;
    value = resolved(value, directory);
  } else if (const auto* maybe =
                 std::get_if<config_field<std::optional<std::string>>>(&key.field)) {
    std::optional<std::string>& value = maybe->write(config_);
    if (value)
      value = key.role == text_role::program ? resolved_program(*value, directory)
                                             : resolved(*value, directory);
  } else if (const auto* words = std::get_if<config_field<std::vector<std::string>>>(&key.field)) {
    std::vector<std::string>& value = words->write(config_);
    for (std::size_t i = 0; i < value.size(); ++i)
      if (i == 0 || value[i].starts_with("./") || value[i].starts_with("../"))
        value[i] = resolved_program(value[i], directory);
  }
}

/// Defaults that follow other keys, or the place of the file.
void reading::follow(const std::string& directory) {
  if (!written("checkpointing.checkpoint_dir"))
    config_.checkpointing.checkpoint_dir =
        resolved(config_.checkpointing.checkpoint_dir, directory);
  const auto follows = [this](const char* path, const char* leader) {
    if (written(path)) return false;
    origins_[path] = std::string("follows ") + leader;
    return true;
  };
  const std::uint64_t groups = config_.grpo.num_prompts_per_step;
  async_rl_config& async = config_.async_rl;
  if (follows("async_rl.min_groups_for_streaming_train", "grpo.num_prompts_per_step"))
    async.min_groups_for_streaming_train = groups;
  if (follows("async_rl.max_inflight_prompts", "grpo.num_prompts_per_step"))
    async.max_inflight_prompts = groups;
  if (follows("async_rl.max_buffered_rollouts", "grpo.num_prompts_per_step x (W + 1)"))
    async.max_buffered_rollouts = groups * (window_versions(async.sampler) + 1);
  if (!config_.env.command.empty() && follows("env.kind", "env.command"))
    config_.env.kind = env_kind::command;
}

result<checked_config> reading::finish(const config_source& source) {
  if (findings_.empty()) {
    follow(source.directory);
    config_findings found = validate(config_);
    for (const std::string& contradiction : found.contradictions)
      refuse(source.name + ": " + contradiction);
    if (findings_.empty())
      return checked_config{.config = std::move(config_),
                            .warnings = std::move(found.warnings),
                            .origins = std::move(origins_)};
  }
  std::string text;
  for (const std::string& finding : findings_) {
    if (!text.empty()) text += '\n';
    text += finding;
  }
  return failure(errc::invalid_argument, std::move(text));
}

} // namespace

result<checked_config> parse_config(const config_source& source) {
  reading run;
  if (auto settings = read_settings(source.name, source.text))
    run.apply(*settings, source.directory);
  else
    run.refuse(settings.error().text);
  for (const std::string& assignment : source.overrides) {
    if (auto settings = read_override(assignment))
      run.apply(*settings, source.working_directory);
    else
      run.refuse(settings.error().text);
  }
  return run.finish(source);
}

result<checked_config> load_config(const std::string& path, std::vector<std::string> overrides) {
  std::error_code broken;
  if (!std::filesystem::exists(path, broken))
    return failure(errc::not_found, path + ": there is no such file");
  if (std::filesystem::is_directory(path, broken))
    return failure(errc::invalid_argument, path + ": is a directory; name a YAML file");
  std::ifstream file(path, std::ios::binary);
  // An empty file is read like any other, and lacks what every run needs.
  const bool opened = file.is_open();
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!opened || file.bad())
    return failure(errc::io_failed, path + ": cannot be read; check its permissions");
  const std::filesystem::path here = std::filesystem::current_path(broken);
  if (broken) return failure(errc::io_failed, "the working directory is gone; go to another one");
  return parse_config({.name = path,
                       .text = std::move(text),
                       .directory = std::filesystem::absolute(path, broken).parent_path().string(),
                       .overrides = std::move(overrides),
                       .working_directory = here.string()});
}

} // namespace weir
