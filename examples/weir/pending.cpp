/// Commands that need the actors. Replaced file by file: run.cpp, verify.cpp, audit.cpp.
#include "examples/weir/commands.hpp"

#include <cstdio>

namespace weir {

namespace {

exit_code absent(const char* name) {
  std::fprintf(stderr, "weir %s is not part of this build\n", name);
  return exit_code::failed;
}

} // namespace

exit_code run(const run_arguments&) {
  return absent("run");
}

exit_code verify(const std::string&) {
  return absent("verify");
}

result<audit_report> audit(const std::string&) {
  return failure(errc::unsupported, "weir audit is not part of this build");
}

exit_code print_audit(const std::string&) {
  return absent("audit");
}

} // namespace weir
