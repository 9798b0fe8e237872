#include "dataplane/bundle_reader.hpp"
#include "dataplane/posix_disk.hpp"
#include "examples/weir/commands.hpp"

#include <cstdio>

namespace weir {

exit_code verify(const std::string& bundle) {
  const auto storage = dataplane::make_posix_disk();
  const auto problems = dataplane::verify_bundle(*storage, bundle);
  if (problems.empty()) {
    std::printf("%s: every file is there, and is what was written\n", bundle.c_str());
    return exit_code::done;
  }
  for (const dataplane::bundle_problem& problem : problems)
    std::fprintf(stderr, "%s/%s: %s\n", bundle.c_str(), problem.file.c_str(),
                 to_string(problem.reason).c_str());
  std::fprintf(stderr, "%zu problems; `weir run` falls back to the newest bundle without any\n",
               problems.size());
  return exit_code::failed;
}

} // namespace weir
