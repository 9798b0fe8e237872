#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <set>

namespace weir::tidy {

namespace {

constexpr std::size_t none = std::string_view::npos;
constexpr std::string_view mark_head = "<!-- [readme:";

/// A region `// [readme:name]` ... `// [end]`, without its indentation.
std::string region_of(const source_file& file, const std::string& name) {
  std::string text;
  bool inside = false;
  std::size_t indent = 0;
  for (const std::string_view line : lines_of(file.text)) {
    if (inside && line.find("// [end]") != none) return text;
    if (inside) text.append(line.substr(std::min(indent, line.size()))).append("\n");
    if (const std::size_t at = line.find("// [readme:" + name + "]"); at != none) {
      inside = true;
      indent = at;
    }
  }
  return "";
}

/// In a README, the line `<!-- [readme:name] path -->` stands above a fenced block that is that
/// region of that file.
void check_quote(const source_file& readme, std::size_t index,
                 const std::vector<source_file>& files, std::vector<finding>& found) {
  const auto lines = lines_of(readme.text);
  std::string_view mark = lines[index];
  mark.remove_prefix(mark_head.size());
  const std::string name(mark.substr(0, mark.find(']')));
  mark.remove_prefix(std::min(mark.find(']') + 2, mark.size()));
  const std::string path(mark.substr(0, mark.find(" -->")));
  std::string shown;
  for (std::size_t at = index + 2; at < lines.size() && !lines[at].starts_with("```"); ++at)
    shown.append(lines[at]).append("\n");
  const source_file* source = find_file(files, path);
  const std::string region = source == nullptr ? "" : region_of(*source, name);
  if (region.empty())
    found.push_back({readme.path, index + 1,
                     path + " has no region \"" + name + "\"; correct the name or the path"});
  else if (region != shown)
    found.push_back(
        {readme.path, index + 1,
         "the snippet differs from region \"" + name + "\" of " + path + "; copy the region"});
}

/// What stands in apostrophes at the beginning of the items of the section "## CAF".
std::set<std::string> files_with_caf(const source_file& readme) {
  std::set<std::string> named;
  bool inside = false;
  for (const std::string_view line : lines_of(readme.text)) {
    if (line.starts_with("## ")) inside = line == "## CAF";
    constexpr std::string_view item = "- `";
    if (!inside || !line.starts_with(item)) continue;
    const std::string_view path = line.substr(item.size());
    named.emplace(path.substr(0, path.find('`')));
  }
  return named;
}

/// Names of test cases, and of the rules that a sweep of weir-sim runs without.
std::set<std::string> named_cases(const std::vector<source_file>& files) {
  std::set<std::string> names;
  const auto collect = [&names](std::string_view text, std::string_view before, char end,
                                const std::string& prefix) {
    for (std::size_t at = text.find(before); at != none; at = text.find(before, at + 1)) {
      const std::string_view name = text.substr(at + before.size());
      names.insert(prefix + std::string(name.substr(0, name.find(end))));
    }
  };
  for (const source_file& file : files) {
    if (!file.path.starts_with("tests/")) continue;
    collect(file.text, "TEST_CASE(\"", '"', "");
    collect(file.text, "TEST_CASE_TEMPLATE(\"", '"', "");
    if (file.path == "tests/simulation/meson.build")
      collect(file.text, "\n  '", '\'', "sim_without_");
  }
  return names;
}

} // namespace

std::vector<finding> check_acceptance(const std::vector<source_file>& files) {
  const source_file* list = find_file(files, "tests/ACCEPTANCE.md");
  if (list == nullptr) return {};
  const std::set<std::string> cases = named_cases(files);
  const auto lines = lines_of(list->text);
  std::vector<finding> found;
  for (std::size_t index = 0; index < lines.size(); ++index) {
    if (!lines[index].starts_with("| ") || lines[index] == "| behaviour | shown by |") continue;
    std::string_view rest = lines[index];
    if (rest.find('`') == none)
      found.push_back(
          {list->path, index + 1, "this line names no test case; write one that shows it"});
    while (rest.find('`') != none) {
      rest.remove_prefix(rest.find('`') + 1);
      const std::string name(rest.substr(0, rest.find('`')));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      if (!cases.contains(name))
        found.push_back(
            {list->path, index + 1, "no test case is called \"" + name + "\"; correct the name"});
    }
  }
  return found;
}

std::vector<finding> check_quotes(const std::vector<source_file>& files) {
  std::vector<finding> found;
  for (const source_file& file : files) {
    if (!file.path.ends_with("README.md")) continue;
    const auto lines = lines_of(file.text);
    for (std::size_t index = 0; index < lines.size(); ++index) {
      if (lines[index].starts_with(mark_head)) check_quote(file, index, files, found);
      const bool marked = index > 0 && lines[index - 1].starts_with(mark_head);
      if (lines[index] == "```cpp" && !marked)
        found.push_back({file.path, index + 1,
                         "C++ that nobody compiles; put it into an example, between the lines "
                         "// [readme:name] and // [end], and quote that: a line "
                         "<!-- [readme:name] examples/... --> above this one"});
    }
  }
  return found;
}

std::vector<finding> check_caf(const std::vector<source_file>& files) {
  const std::string readme = "actors/runtime/README.md";
  const source_file* list = find_file(files, readme);
  if (list == nullptr) return {};
  std::set<std::string> named = files_with_caf(*list);
  std::vector<finding> found;
  for (const source_file& file : files) {
    if (file.path.starts_with("benchmarks/") || file.path.starts_with("tests/")) continue;
    const bool includes =
        file.text.starts_with("#include <caf/") || file.text.find("\n#include <caf/") != none;
    if (includes && named.erase(file.path) == 0)
      found.push_back({file.path, 0,
                       "includes CAF, and section CAF of " + readme +
                           " does not list it; use actors/runtime/detail/caf_bridge.hpp instead"});
  }
  for (const std::string& path : named)
    found.push_back({readme, 0, "section CAF lists " + path + ", which does not include CAF"});
  return found;
}

} // namespace weir::tidy
