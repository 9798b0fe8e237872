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

/// A source includes its own header first: so the build compiles that header alone.
void check_own_header(const std::vector<source_file>& files, std::vector<finding>& found) {
  for (const source_file& file : files) {
    const std::string_view top = std::string_view(file.path).substr(0, file.path.find('/'));
    const bool library =
        top == "messages" || top == "kernels" || top == "dataplane" || top == "actors";
    if (!library || !file.path.ends_with(".cpp")) continue;
    const std::string header = file.path.substr(0, file.path.size() - 4) + ".hpp";
    if (find_file(files, header) == nullptr) continue;
    const std::size_t first = file.text.find("#include ");
    const std::string own = "#include \"" + header + "\"";
    if (first == none || !std::string_view(file.text).substr(first).starts_with(own))
      found.push_back({file.path, 0, "does not include its own header first; begin with " + own});
  }
}

} // namespace

std::vector<finding> check_tree(const std::vector<source_file>& files) {
  std::vector<finding> found;
  check_resume(files, found);
  check_listed(files, found);
  check_readmes(files, found);
  check_own_header(files, found);
  for (const auto check : {check_quotes, check_acceptance, check_caf}) {
    const std::vector<finding> more = check(files);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

} // namespace weir::tidy
