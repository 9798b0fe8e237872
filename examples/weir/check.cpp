/// `weir check`: everything that can be found wrong before a run, without one.
#include "examples/weir/commands.hpp"
#include "examples/weir/samplers.hpp"
#include "examples/weir/unavailable.hpp"

#include <cstdio>

namespace weir {

namespace {

/// What this build or the sampler of a user's own does not do as it is asked to.
std::vector<std::string> findings_of(const run_config& config) {
  std::vector<std::string> findings = unavailable(config);
  const auto policy = sampler_of(config);
  if (!policy)
    findings.push_back(policy.error().text);
  else if (const std::string notice = shadow_mode_notice(**policy); !notice.empty())
    std::fprintf(stderr, "notice: %s\n", notice.c_str());
  return findings;
}

} // namespace

exit_code check(const std::string& config_path, const std::vector<std::string>& overrides) {
  const auto read = load_config(config_path, overrides);
  if (!read) {
    std::fprintf(stderr, "%s\n", read.error().text.c_str());
    return exit_code::bad_usage;
  }
  std::fputs(to_yaml(*read).c_str(), stdout);
  for (const std::string& warning : read->warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  const std::vector<std::string> findings = findings_of(read->config);
  for (const std::string& finding : findings)
    std::fprintf(stderr, "%s: %s\n", config_path.c_str(), finding.c_str());
  return findings.empty() ? exit_code::done : exit_code::bad_usage;
}

} // namespace weir
