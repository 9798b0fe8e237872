#include "examples/weir/config_yaml.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace weir {

namespace {

constexpr std::size_t text_bytes_max = 1 << 20;
/// Aliases may refer to what encloses them, or multiply; both end here.
constexpr std::size_t depth_max = 16;
constexpr std::size_t visited_max = 10'000;
constexpr std::string_view merge_key = "<<";

raw_value scalar_or_shape(const YAML::Node& node) {
  if (node.IsNull()) return {};
  if (node.IsMap()) return {.form = raw_value::shape::mapping};
  if (node.IsSequence()) return {.form = raw_value::shape::list};
  // "?" is a plain scalar; "!" a quoted one; everything else an explicit tag.
  const bool text = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
  return {.form = raw_value::shape::scalar, .text = node.Scalar(), .quoted = text};
}

/// No key holds a list of lists: one level is read, so that an alias cannot multiply.
raw_value value_of(const YAML::Node& node) {
  raw_value value = scalar_or_shape(node);
  if (value.form == raw_value::shape::list)
    for (const auto& item : node)
      value.items.push_back(scalar_or_shape(item));
  return value;
}

/// Walks a document and collects leaves and findings.
class flattening {
public:
  explicit flattening(std::string place_name, bool lines)
      : place_name_(std::move(place_name)), lines_(lines) {}

  void walk(const YAML::Node& node, const std::string& path, std::size_t depth) {
    if (depth > depth_max || ++visited_ > visited_max) {
      overflowed_ = true;
      return;
    }
    if (node.IsMap() && find_key(path) == nullptr) return walk_mapping(node, path, depth);
    // An empty block says nothing; a null at a key is its value.
    if (node.IsNull() && find_key(path) == nullptr && is_block(path)) return;
    add(path, node);
  }

  result<std::vector<setting>> finish() {
    if (overflowed_)
      findings_.push_back(place_name_ + ": more than " + std::to_string(visited_max) +
                          " settings, or nested deeper than " + std::to_string(depth_max) +
                          "; does an alias contain itself?");
    if (findings_.empty()) refuse_doubled();
    if (findings_.empty()) return std::move(settings_);
    std::string text;
    for (const std::string& finding : findings_)
      text += (text.empty() ? "" : "\n") + finding;
    return failure(errc::invalid_argument, std::move(text));
  }

private:
  static bool is_block(std::string_view path) {
    const std::string prefix = std::string(path) + ".";
    const auto keys = config_keys();
    return std::any_of(keys.begin(), keys.end(), [&](const config_key& key) {
      return key.path.substr(0, prefix.size()) == prefix;
    });
  }

  /// "grpo.seed: 1" beside "grpo: {seed: 2}" is one key twice, too.
  void refuse_doubled() {
    std::set<std::string_view> seen;
    for (const setting& one : settings_)
      if (!seen.insert(one.path).second)
        findings_.push_back(one.place + ": " + one.path + " is set twice; keep one of them");
  }

  [[nodiscard]] std::string place(const YAML::Node& node) const {
    return lines_ ? place_name_ + ":" + std::to_string(node.Mark().line + 1) : place_name_;
  }

  void walk_mapping(const YAML::Node& node, const std::string& path, std::size_t depth) {
    std::vector<YAML::Node> merged;
    std::vector<std::string> names;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        findings_.push_back(place(node) + ": a key of \"" + path + "\" is no text");
        continue;
      }
      const std::string& name = entry.first.Scalar();
      if (name == merge_key) {
        merged.push_back(entry.second);
        continue;
      }
      const std::string inner = path.empty() ? name : path + "." + name;
      if (std::find(names.begin(), names.end(), name) != names.end())
        findings_.push_back(place(entry.first) + ": " + inner +
                            " stands twice in its block; keep one of them");
      names.push_back(name);
      walk(entry.second, inner, depth + 1);
    }
    for (const YAML::Node& source : merged)
      merge(source, path, depth);
  }

  /// What stands in the block itself wins over what is merged into it.
  void merge(const YAML::Node& source, const std::string& path, std::size_t depth) {
    if (source.IsSequence()) {
      for (const auto& part : source)
        if (part.IsMap()) merge(part, path, depth + 1);
      return;
    }
    const std::size_t own = settings_.size();
    walk(source, path, depth + 1);
    const auto first = settings_.begin() + static_cast<std::ptrdiff_t>(own);
    const auto overridden = [&](const setting& added) {
      return std::any_of(settings_.begin(), first,
                         [&](const setting& kept) { return kept.path == added.path; });
    };
    settings_.erase(std::remove_if(first, settings_.end(), overridden), settings_.end());
  }

  void add(const std::string& path, const YAML::Node& node) {
    settings_.push_back({.path = path, .value = value_of(node), .place = place(node)});
  }

  std::string place_name_;
  bool lines_;
  bool overflowed_ = false;
  std::size_t visited_ = 0;
  std::vector<setting> settings_;
  std::vector<std::string> findings_;
};

/// A tab is the usual reason for text that cannot be read, and invisible.
bool indented_by_tab(const std::string& text, int line) {
  std::size_t begin = 0;
  for (int at = 0; at < line && begin != std::string::npos; ++at) {
    begin = text.find('\n', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (begin == std::string::npos) return false;
  const std::size_t first = text.find_first_not_of(" \t", begin);
  return text.substr(begin, first - begin).find('\t') != std::string::npos;
}

result<std::vector<setting>> flatten(const std::string& name, const std::string& text) {
  if (text.size() > text_bytes_max)
    return failure(errc::invalid_argument,
                   name + ": " + std::to_string(text.size()) + " bytes are no configuration");
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      return failure(errc::invalid_argument,
                     name + ": several YAML documents (\"---\"); keep one of them");
    flattening leaves(name, true);
    if (documents.empty() || documents[0].IsNull()) return leaves.finish();
    if (!documents[0].IsMap())
      return failure(errc::invalid_argument,
                     name + ": not a mapping; expected blocks such as \"grpo:\"");
    leaves.walk(documents[0], "", 0);
    return leaves.finish();
  } catch (const YAML::Exception& broken) {
    const bool located = !broken.mark.is_null();
    std::string text_of_error = name;
    if (located) text_of_error += ":" + std::to_string(broken.mark.line + 1);
    text_of_error += ": not YAML: " + broken.msg;
    if (located && indented_by_tab(text, broken.mark.line))
      text_of_error += "; the line is indented by a tab, use spaces";
    return failure(errc::invalid_argument, std::move(text_of_error));
  }
}

} // namespace

result<std::vector<setting>> read_settings(const std::string& name, const std::string& text) {
  return flatten(name, text);
}

result<std::vector<setting>> read_override(const std::string& assignment) {
  const std::string place = "--set " + assignment;
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    return failure(errc::invalid_argument, place + ": expected KEY=VALUE, such as grpo.seed=1");
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      return failure(errc::invalid_argument,
                     place + ": the value is several YAML documents; put it in quotes");
    flattening leaves(place, false);
    leaves.walk(documents.empty() ? YAML::Node() : documents[0], path, 0);
    return leaves.finish();
  } catch (const YAML::Exception& broken) {
    return failure(errc::invalid_argument,
                   place + ": the value is not YAML: " + broken.msg + "; put it in quotes");
  }
}

} // namespace weir
