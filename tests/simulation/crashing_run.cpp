#include "tests/simulation/crashing_run.hpp"

#include "tests/simulation/history.hpp"
#include "tests/simulation/scripted_tokens.hpp"

#include <list>
#include <utility>

namespace weir::sim {

run_report run_seed(const run_options& options) {
  std::list<rule_suspension> suspended;
  for (const rule one : options.without)
    suspended.emplace_back(one);
  run_report report;
  report.plan = plan_of(options.seed, options.samplers);
  history undisturbed(report.plan);
  const auto alone = undisturbed.run({});
  undisturbed.report_to(report);
  if (!alone) {
    report.violation = "without any crash: " + to_string(alone.error());
    return report;
  }
  report.planned = options.schedule
                       ? *options.schedule
                       : crashes_of(options.seed, undisturbed.length(), options.crashes);
  history disturbed(report.plan);
  auto ended = disturbed.run(report.planned);
  if (ended) ended = compare(report.plan, undisturbed.ended(), disturbed.ended());
  disturbed.report_to(report);
  if (!ended) report.violation = to_string(ended.error());
  return report;
}

run_report shrink(const run_options& options, const run_report& failing) {
  run_report shortest = failing;
  run_options tried = options;
  for (std::size_t left_out = 0; left_out < shortest.planned.size();) {
    auto schedule = shortest.planned;
    schedule.erase(schedule.begin() + static_cast<std::ptrdiff_t>(left_out));
    tried.schedule = schedule;
    run_report report = run_seed(tried);
    if (report.clean())
      ++left_out;
    else
      shortest = std::move(report);
  }
  return shortest;
}

std::string describe(const run_report& report) {
  std::string text =
      "seed " + std::to_string(report.plan.seed) + ": " + to_string(report.plan) + "\ncrashes:\n";
  for (std::size_t i = 0; i < report.planned.size() && i <= report.crashes; ++i)
    text += "  life " + std::to_string(i + 1) + ": " + to_string(report.planned[i]) +
            (i == report.crashes ? " (not reached)" : "") + "\n";
  text += "violated in life " + std::to_string(report.lives) + ": " + report.violation + "\n";
  if (!report.log.empty()) text += "logged in the newest life:\n" + report.log;
  if (!report.trace.empty()) text += "newest messages:\n" + report.trace;
  return text;
}

} // namespace weir::sim
