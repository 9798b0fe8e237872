#include "actors/audit/run_audit.hpp"

#include "dataplane/bundle_reader.hpp"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

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

} // namespace

result<audit_report> audit_run(dataplane::disk& storage, const std::string& run_directory) {
  const auto events = read_events(storage, run_directory);
  if (!events) return failure(events.error());
  const auto bundles = read_bundles(storage, run_directory);
  if (!bundles) return failure(bundles.error());
  std::vector<event_file> files;
  for (std::size_t i = 0; i < events->lives.size(); ++i)
    files.push_back({events->lives[i], events->names[i], events->texts[i]});
  return audit(files, *bundles);
}

} // namespace weir
