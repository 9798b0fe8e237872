#include "actors/audit/run_audit.hpp"
#include "dataplane/posix_disk.hpp"
#include "examples/weir/commands.hpp"

#include <cstdio>

namespace weir {

namespace {

void print_lives(const audit_report& report) {
  std::printf("%-12s %-14s %10s %12s %8s  %s\n", "incarnation", "restored", "events", "rolled back",
              "bundles", "end");
  for (const incarnation_audit& life : report.incarnations) {
    const std::string end =
        life.finished ? std::string(to_string(*life.finished)) : std::string("killed");
    std::printf("%-12llu %-14s %10llu %12llu %8llu  %s%s\n",
                static_cast<unsigned long long>(life.incarnation.value),
                life.restored_bundle.empty() ? "-" : life.restored_bundle.c_str(),
                static_cast<unsigned long long>(life.events),
                static_cast<unsigned long long>(life.rolled_back),
                static_cast<unsigned long long>(life.bundles_published), end.c_str(),
                life.survives ? "" : ", set aside");
  }
}

} // namespace

result<audit_report> audit_run(const std::string& run_directory) {
  return audit_run(*dataplane::make_posix_disk(), run_directory);
}

exit_code print_audit(const std::string& run_directory) {
  const auto report = audit_run(run_directory);
  if (!report) {
    std::fprintf(stderr, "%s\n", to_string(report.error()).c_str());
    return exit_code::failed;
  }
  print_lives(*report);
  std::printf("\n%-12s %llu\n", "handed out", static_cast<unsigned long long>(report->handed_out));
  for (std::size_t state = 1; state < group_states; ++state) {
    if (report->in_state[state] > 0)
      std::printf("%-12s %llu\n", std::string(to_string(static_cast<group_state>(state))).c_str(),
                  static_cast<unsigned long long>(report->in_state[state]));
  }
  std::printf("%-12s %llu\n%-12s %llu\n", "steps",
              static_cast<unsigned long long>(report->steps_finished), "staleness",
              static_cast<unsigned long long>(report->staleness_max));
  for (const audit_problem& problem : report->problems)
    std::printf("%s\n", to_string(problem).c_str());
  std::printf("%s: %llu problems\n", report->clean() ? "clean" : "NOT CLEAN",
              static_cast<unsigned long long>(report->problems_total));
  return report->clean() ? exit_code::done : exit_code::failed;
}

} // namespace weir
