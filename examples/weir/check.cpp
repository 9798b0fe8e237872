#include "examples/weir/commands.hpp"
#include "examples/weir/unavailable.hpp"

#include <cstdio>

namespace weir {

exit_code check(const std::string& config_path, const std::vector<std::string>& overrides) {
  const auto read = load_config(config_path, overrides);
  if (!read) {
    std::fprintf(stderr, "%s\n", read.error().text.c_str());
    return exit_code::bad_usage;
  }
  std::fputs(to_yaml(*read).c_str(), stdout);
  for (const std::string& warning : read->warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  const std::vector<std::string> gaps = unavailable(read->config);
  for (const std::string& gap : gaps)
    std::fprintf(stderr, "%s: %s\n", config_path.c_str(), gap.c_str());
  return gaps.empty() ? exit_code::done : exit_code::bad_usage;
}

} // namespace weir
