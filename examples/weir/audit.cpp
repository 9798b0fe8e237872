#include "dataplane/bundle_reader.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/posix_disk.hpp"
#include "examples/weir/commands.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

namespace weir {

namespace {

constexpr std::uint64_t events_bytes_max = 16ULL << 30;

/// N of "events-N.jsonl".
std::optional<incarnation> incarnation_of(std::string_view name) {
  constexpr std::string_view prefix = "events-";
  constexpr std::string_view suffix = ".jsonl";
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  const std::string_view digits =
      name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  std::uint64_t number = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (status != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return incarnation(number);
}

/// The events of one run, read whole; names and texts are kept here for the audit's views.
struct event_texts {
  std::vector<incarnation> lives;
  std::vector<std::string> names;
  std::vector<std::string> texts;
};

result<event_texts> read_events(dataplane::disk& storage, const std::string& run_directory) {
  event_texts read;
  const auto entries = storage.list(run_directory);
  if (!entries) return failure(entries.error());
  for (const dataplane::directory_entry& entry : *entries) {
    const auto life = incarnation_of(entry.name);
    if (!life) continue;
    const auto bytes =
        dataplane::read_file(storage, dataplane::join(run_directory, entry.name), events_bytes_max);
    if (!bytes) return failure(bytes.error());
    read.lives.push_back(*life);
    read.names.push_back(entry.name);
    read.texts.emplace_back(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  if (read.lives.empty())
    return failure(errc::not_found, run_directory + ": there is no events-N.jsonl; name a run "
                                                    "directory (the parent of checkpoint_dir)");
  return read;
}

/// Bundles lie in the one sub-directory that has them.
result<std::vector<bundle_facts>> read_bundles(dataplane::disk& storage,
                                               const std::string& run_directory) {
  std::vector<bundle_facts> facts;
  const auto entries = storage.list(run_directory);
  if (!entries) return failure(entries.error());
  for (const dataplane::directory_entry& entry : *entries) {
    if (entry.kind != dataplane::entry_kind::directory) continue;
    const auto survey =
        dataplane::survey_bundles(storage, dataplane::join(run_directory, entry.name));
    if (!survey) return failure(survey.error());
    for (const dataplane::bundle& bundle : survey->readable) {
      bundle_facts fact;
      fact.bundle = dataplane::to_string(bundle.name);
      fact.epoch = bundle.content.epoch;
      if (bundle.content.parent) fact.parent = bundle.content.parent->name;
      for (const dataplane::owner_sequence& owner : bundle.content.owners)
        fact.owners.push_back({owner.owner, owner.sequence});
      facts.push_back(std::move(fact));
    }
  }
  return facts;
}

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
  const auto storage = dataplane::make_posix_disk();
  const auto events = read_events(*storage, run_directory);
  if (!events) return failure(events.error());
  const auto bundles = read_bundles(*storage, run_directory);
  if (!bundles) return failure(bundles.error());
  std::vector<event_file> files;
  for (std::size_t i = 0; i < events->lives.size(); ++i)
    files.push_back({events->lives[i], events->names[i], events->texts[i]});
  return audit(files, *bundles);
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
