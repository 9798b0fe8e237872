/// `weir verify`: every byte of a bundle against its manifest, and its parts against each other.
#include "dataplane/bundle_reader.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/snapshot_file.hpp"
#include "examples/weir/bundle_view.hpp"
#include "examples/weir/commands.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace weir {

namespace {

/// Where in the data plane the damage is: the first chunk of the first file that cannot be read.
std::string place_of_damage(dataplane::disk& storage, const std::string& path) {
  const auto opened = dataplane::open_bundle_at(storage, path);
  if (!opened) return {};
  const auto read = dataplane::read_snapshot(storage, path, opened->content.epoch);
  return read ? std::string() : read.error().text;
}

/// What no checksum shows: sections that are whole, and contradict each other.
void add_contradictions(dataplane::disk& storage, const std::string& path,
                        std::vector<dataplane::bundle_problem>& problems) {
  const auto view = view_bundle(storage, path);
  if (!view) {
    problems.push_back({"its parts", view.error()});
    return;
  }
  for (auto& problem : check_files(storage, path, view->parts.bundle.content))
    problems.push_back(std::move(problem));
}

/// What is wrong, with the path of the file, once.
std::string line_of(const std::string& bundle, const dataplane::bundle_problem& problem) {
  const std::string path = dataplane::join(bundle, problem.file);
  const std::string reason = to_string(problem.reason);
  return problem.reason.text.starts_with(path) ? reason : path + ": " + reason;
}

} // namespace

exit_code verify(const std::string& named) {
  const auto storage = dataplane::make_posix_disk();
  const auto path = bundle_path(*storage, named);
  if (!path) {
    std::fprintf(stderr, "%s\n", to_string(path.error()).c_str());
    return exit_code::failed;
  }
  const std::string& bundle = *path;
  auto problems = dataplane::verify_bundle(*storage, bundle);
  const bool rows_damaged = std::ranges::any_of(
      problems, [](const auto& problem) { return problem.file.starts_with("data_plane/"); });
  if (problems.empty()) add_contradictions(*storage, bundle, problems);
  if (problems.empty()) {
    std::printf("%s: every file is there and is what was written, and the parts agree\n",
                bundle.c_str());
    return exit_code::done;
  }
  for (const dataplane::bundle_problem& problem : problems)
    std::fprintf(stderr, "%s\n", line_of(bundle, problem).c_str());
  if (rows_damaged)
    if (const std::string place = place_of_damage(*storage, bundle); !place.empty())
      std::fprintf(stderr, "  in the rows: %s\n", place.c_str());
  std::fprintf(stderr, "%zu %s; `weir run` falls back to the newest bundle that has none\n",
               problems.size(), problems.size() == 1 ? "problem" : "problems");
  return exit_code::failed;
}

} // namespace weir
