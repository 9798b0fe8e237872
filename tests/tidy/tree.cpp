#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <set>

namespace weir::tidy {

namespace {

constexpr std::size_t none = std::string_view::npos;

std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == none ? std::string() : std::string(path.substr(0, slash));
}

bool is_compiled(std::string_view path) {
  return path.ends_with(".cpp") || path.ends_with(".cu");
}

bool is_source(std::string_view path) {
  return is_compiled(path) || path.ends_with(".hpp") || path.ends_with(".cuh");
}

const source_file* find_file(const std::vector<source_file>& files, std::string_view path) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [path](const source_file& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

std::string in_apostrophes(std::string_view text) {
  std::string quoted("'");
  return quoted.append(text).append("'");
}

std::string joined(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string(name) : folder + "/" + std::string(name);
}

/// The only place that resumes a coroutine is the run queue; everything rests on that.
void check_resume(const std::vector<source_file>& files, std::vector<finding>& found) {
  std::vector<finding> places;
  for (const source_file& file : files) {
    const bool product = !file.path.starts_with("tests/") && !file.path.starts_with("benchmarks/");
    if (!is_source(file.path) || !product) continue;
    const std::string code = code_of(file.text);
    for (std::size_t at = code.find(".resume()"); at != none; at = code.find(".resume()", at + 1))
      places.push_back({file.path, line_of(code, at),
                        "one of several .resume(); only the run queue resumes, post to it"});
  }
  if (places.size() > 1) found.insert(found.end(), places.begin(), places.end());
}

/// True if a build file names the source: 'a.cpp', 'b/a.cpp', the stem 'a' that a loop extends, or
/// 'ops_' and 'avx2' that a loop joins.
bool names(std::string_view build, std::string_view name) {
  const std::string_view stem = name.substr(0, name.rfind('.'));
  const std::string ending = std::string(name) + "'";
  for (std::size_t at = build.find(ending); at != none; at = build.find(ending, at + 1))
    if (at > 0 && (build[at - 1] == '\'' || build[at - 1] == '/')) return true;
  if (build.find(in_apostrophes(stem)) != none) return true;
  for (std::size_t at = stem.find('_'); at != none; at = stem.find('_', at + 1))
    if (build.find(in_apostrophes(stem.substr(0, at + 1))) != none &&
        build.find(in_apostrophes(stem.substr(at + 1))) != none)
      return true;
  return false;
}

/// A source that no build file names is dead, or was forgotten.
void check_listed(const std::vector<source_file>& files, std::vector<finding>& found) {
  for (const source_file& file : files) {
    if (!is_compiled(file.path)) continue;
    const std::string_view path = file.path;
    const std::string_view name = path.substr(path.rfind('/') + 1);
    const std::string_view top = path.substr(0, path.find('/') + 1);
    const bool listed = std::any_of(files.begin(), files.end(), [&](const source_file& build) {
      return build.path.starts_with(top) && build.path.ends_with("meson.build") &&
             names(build.text, name);
    });
    if (!listed) found.push_back({file.path, 0, "no meson.build lists this file; add it"});
  }
}

/// Each folder of the product explains itself; folders of details and of tests may do so above.
void check_readmes(const std::vector<source_file>& files, std::vector<finding>& found) {
  std::set<std::string> folders;
  for (const source_file& file : files)
    if (is_source(file.path) && !folder_of(file.path).empty()) folders.insert(folder_of(file.path));
  for (const std::string& folder : folders) {
    const bool shared = folder.starts_with("tests/") || folder.ends_with("/detail");
    const std::string explained = shared ? folder_of(folder) : folder;
    if (find_file(files, joined(folder, "README.md")) == nullptr &&
        find_file(files, joined(explained, "README.md")) == nullptr)
      found.push_back({folder, 0, "no README.md; say what the folder is for, and its invariants"});
  }
}

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
void check_snippets(const source_file& readme, const std::vector<source_file>& files,
                    std::vector<finding>& found) {
  const auto lines = lines_of(readme.text);
  for (std::size_t index = 0; index < lines.size(); ++index) {
    constexpr std::string_view head = "<!-- [readme:";
    std::string_view mark = lines[index];
    if (!mark.starts_with(head)) continue;
    mark.remove_prefix(head.size());
    const std::string name(mark.substr(0, mark.find(']')));
    mark.remove_prefix(std::min(mark.find(']') + 2, mark.size()));
    const std::string path(mark.substr(0, mark.find(" -->")));
    std::string shown;
    std::size_t at = index + 2;
    for (; at < lines.size() && !lines[at].starts_with("```"); ++at)
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
}

} // namespace

std::vector<finding> check_tree(const std::vector<source_file>& files) {
  std::vector<finding> found;
  check_resume(files, found);
  check_listed(files, found);
  check_readmes(files, found);
  for (const source_file& file : files)
    if (file.path.ends_with("README.md")) check_snippets(file, files, found);
  return found;
}

} // namespace weir::tidy
