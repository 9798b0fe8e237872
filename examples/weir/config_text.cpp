#include "examples/weir/config_text.hpp"

#include "examples/weir/config_value.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace weir {

namespace {

std::vector<std::string_view> words_of(std::string_view path) {
  std::vector<std::string_view> words;
  while (true) {
    const auto dot = path.find('.');
    words.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return words;
    path.remove_prefix(dot + 1);
  }
}

/// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '|') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

constexpr std::string_view introduction = R"(# Configuration

Made from the table in the code by `weir check --keys`; a test compares the two.

Unknown keys are errors. `--set a.b=c` overrides a key; the value is YAML too. Relative paths are
relative to the file, those in `--set` to the working directory. *Resume* says whether a run may be
resumed with another value: `free`, or `same` if that would make it another run.

)";

/// `remark` is what stands behind a value; empty for nothing.
std::string yaml_of(const run_config& config,
                    const std::function<std::string(std::string_view path)>& remark) {
  std::string text;
  std::vector<std::string_view> open;
  for (const config_key& key : config_keys()) {
    const std::vector<std::string_view> words = words_of(key.path);
    std::size_t shared = 0;
    while (shared < open.size() && shared + 1 < words.size() && open[shared] == words[shared])
      ++shared;
    open.resize(shared);
    for (std::size_t depth = shared; depth + 1 < words.size(); ++depth) {
      text.append(depth * 2, ' ').append(words[depth]).append(":\n");
      open.push_back(words[depth]);
    }
    text.append(open.size() * 2, ' ').append(words.back()).append(": ");
    text.append(format(key, config)).append(remark(key.path)).append("\n");
  }
  return text;
}

} // namespace

std::string to_yaml(const run_config& config) {
  return yaml_of(config, [](std::string_view) { return std::string(); });
}

std::string to_yaml(const checked_config& read) {
  return yaml_of(read.config, [&read](std::string_view path) {
    const auto origin = read.origins.find(path);
    std::string remark = " # " + (origin == read.origins.end() ? "default" : origin->second);
    std::replace(remark.begin(), remark.end(), '\n', ' '); // Of a value that has several lines.
    return remark;
  });
}

std::string config_reference() {
  const run_config defaults;
  std::string text(introduction);
  std::string_view block;
  for (const config_key& key : config_keys()) {
    const std::string_view first = words_of(key.path).front();
    if (first != block) {
      text.append(block.empty() ? "" : "\n").append("## `").append(first).append("`\n\n");
      text.append("| key | type | default | range | resume | meaning |\n");
      text.append("|---|---|---|---|---|---|\n");
      block = first;
    }
    const std::string initial =
        key.default_text.empty() ? format(key, defaults) : std::string(key.default_text);
    text.append("| `").append(key.path).append("` | ").append(cell(type_name(key)));
    text.append(" | ").append(cell(initial)).append(" | ").append(cell(range_name(key)));
    text.append(key.resume == on_resume::must_match ? " | same | " : " | free | ");
    text.append(cell(key.meaning)).append(" |\n");
  }
  text.append("\n## Names of other systems\n\nThese are refused with the name to use.\n\n");
  text.append("| name | use |\n|---|---|\n");
  for (const renamed_key& key : renamed_keys())
    text.append("| `").append(key.old_path).append("` | `").append(key.path).append("` |\n");
  text.append("\n## What has no counterpart here\n\nThese are refused, too, each block once.\n\n");
  text.append("| name | instead |\n|---|---|\n");
  for (const foreign_block& none : foreign_blocks())
    text.append("| `").append(none.path).append("` | ").append(cell(none.instead)).append(" |\n");
  return text;
}

} // namespace weir
