#include "actors/checkpoint/restore.hpp"

#include "actors/dataloader/dataloader_section.hpp"
#include "actors/replay/rollout_rows.hpp"
#include "actors/runtime/failpoint.hpp"
#include "actors/sampler/replacement_reserve.hpp"
#include "dataplane/section_file.hpp"
#include "dataplane/set_aside.hpp"
#include "dataplane/snapshot_file.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

namespace weir {

namespace {

/// The payload of one of our own sections, its header checked against the bundle.
result<std::vector<std::byte>> read_section(dataplane::disk& storage, const std::string& directory,
                                            const dataplane::bundle& bundle,
                                            const std::string& path) {
  auto file = dataplane::read_listed_file(storage, directory, bundle.content, path);
  if (!file) return file;
  const auto payload = dataplane::section_payload(*file, bundle.content.epoch);
  if (!payload)
    return failure(payload.error().code,
                   dataplane::to_string(bundle.name) + "/" + path + ": " + payload.error().text);
  return std::vector<std::byte>(payload->begin(), payload->end());
}

std::int64_t integer_tag(const dataplane::row_summary& row, std::string_view name) {
  for (const dataplane::tag& tag : row.tags) {
    if (tag.name == name && std::holds_alternative<std::int64_t>(tag.value))
      return std::get<std::int64_t>(tag.value);
  }
  return -1;
}

/// The data plane's side of the comparison: which rows it has, of which groups.
inventory inventory_of(const dataplane::snapshot& rows) {
  inventory listed;
  listed.field_names.assign(rollout_fields().begin(), rollout_fields().end());
  for (const auto& partition : rows.inventory()) {
    for (const dataplane::row_summary& row : partition.rows) {
      inventory_row entry;
      entry.row = row.id;
      entry.group = group_id(static_cast<std::uint64_t>(integer_tag(row, "group")));
      entry.sibling = static_cast<std::uint32_t>(integer_tag(row, "sibling"));
      entry.committed = row.state == dataplane::row_state::committed;
      for (const dataplane::field_summary& field : row.fields) {
        const auto place = std::ranges::find(listed.field_names, field.name);
        if (place == listed.field_names.end()) continue;
        entry.fields |= std::uint64_t{1} << (place - listed.field_names.begin());
        if (field.name == "logprobs" && !field.shape.empty()) entry.tokens += field.shape.front();
      }
      listed.rows.push_back(entry);
    }
  }
  return listed;
}

restored_sections sections_of(const restored_states& states) {
  restored_sections sections;
  sections.data_plane = inventory_of(states.rows);
  sections.required_fields = sections.data_plane.field_names;
  for (const replay_record& record : in_dispatch_order(states.replay.index))
    sections.replay.push_back(
        {record.group, record.rows, record.dispatch_index, record.claimed_for});
  for (const ledger_record& record : in_dispatch_order(states.sampler.ledger)) {
    ledger_entry entry;
    entry.group = record.group;
    entry.admitted = record.phase == group_phase::admitted;
    entry.admission = record.admission;
    entry.dispatch_index = record.dispatch_index;
    entry.dispatches = record.dispatches;
    for (const sibling_record& sibling : record.sibling_records) {
      if (sibling.sealed) entry.sealed.push_back({sibling.sibling, sibling.row});
    }
    sections.ledger.push_back(std::move(entry));
  }
  states.sampler.reserve.for_each(
      [&sections](std::uint64_t key, const auto&) { sections.reserve.emplace_back(key); });
  sections.next_group = group_id(states.cursor.ordinal);
  return sections;
}

/// The reserve is a file of its own, and absent where it is empty.
result<void> load_reserve(dataplane::disk& storage, const std::string& directory,
                          const dataplane::bundle& bundle, decoded_sampler& ledger) {
  std::vector<std::byte> section;
  const auto& files = bundle.content.files;
  if (std::ranges::find(files, replacement_reserve_file, &dataplane::manifest_file::path) !=
      files.end()) {
    auto read = read_section(storage, directory, bundle, replacement_reserve_file);
    if (!read) return failure(std::move(read.error()));
    section = std::move(*read);
  }
  return decode_reserve(section, ledger);
}

result<void> load_sections(dataplane::disk& storage, const std::string& directory,
                           restored_states& states) {
  const auto loader = read_section(storage, directory, states.bundle, "train_dataloader.fb");
  if (!loader) return failure(loader.error());
  auto cursor = decode_dataloader(*loader);
  if (!cursor) return failure(std::move(cursor.error()));
  states.cursor = cursor->cursor;
  const auto recovery = read_section(storage, directory, states.bundle, "rollout_recovery.fb");
  if (!recovery) return failure(recovery.error());
  auto sampler = decode_sampler(*recovery);
  if (!sampler) return failure(std::move(sampler.error()));
  if (auto filled = load_reserve(storage, directory, states.bundle, *sampler); !filled)
    return filled;
  states.sampler = std::move(sampler->image);
  const auto metadata =
      read_section(storage, directory, states.bundle, "replay_buffer_metadata.fb");
  if (!metadata) return failure(metadata.error());
  auto replay = decode_replay(*metadata);
  if (!replay) return failure(std::move(replay.error()));
  states.replay = std::move(replay->image);
  return {};
}

result<void> load_policy(dataplane::disk& storage, const std::string& directory,
                         restored_states& states) {
  for (const dataplane::manifest_file& file : states.bundle.content.files) {
    if (!file.path.starts_with("policy/")) continue;
    auto bytes = dataplane::read_listed_file(storage, directory, states.bundle.content, file.path);
    if (!bytes) return failure(std::move(bytes.error()));
    states.policy.emplace(file.path, std::move(*bytes));
  }
  return {};
}

/// Which bundle to restore: the newest valid one, or the one that was named.
struct choice {
  std::optional<dataplane::bundle> bundle;
  std::vector<dataplane::broken_bundle> passed_over;
};

result<choice> choose(dataplane::disk& storage, const restore_request& request,
                      const dataplane::bundle_survey& survey) {
  choice made;
  if (request.fresh) return made;
  if (request.from) {
    const auto name = dataplane::parse_bundle_name(*request.from);
    if (!name)
      return failure(errc::invalid_argument,
                     "--from " + *request.from + ": is no bundle's name; use step_N");
    auto opened = dataplane::open_bundle(storage, request.checkpoint_directory, *name);
    if (!opened) return failure(std::move(opened.error()));
    made.bundle = std::move(*opened);
    return made;
  }
  auto newest = dataplane::newest_valid_bundle(storage, request.checkpoint_directory, survey);
  if (!newest) return failure(std::move(newest.error()));
  if (*newest) {
    made.bundle = std::move((*newest)->chosen);
    made.passed_over = std::move((*newest)->passed_over);
  }
  return made;
}

/// A newer bundle that was passed over: why, and how far back that goes.
std::string distance_lost(const dataplane::broken_bundle& broken, const dataplane::bundle& chosen) {
  const std::uint64_t from = chosen.name.step;
  const std::uint64_t steps = broken.name.step > from ? broken.name.step - from : 0;
  return dataplane::to_string(broken.name) + " cannot be restored (" + to_string(broken.reason) +
         "); " + std::to_string(steps) + " steps are done again";
}

/// Sets aside what belongs to another history, and says so.
result<void> set_histories_aside(dataplane::disk& storage, const restore_request& request,
                                 const dataplane::bundle_survey& survey, const choice& made,
                                 std::vector<std::string>& notices) {
  for (const dataplane::broken_bundle& broken : made.passed_over)
    notices.push_back(distance_lost(broken, *made.bundle));
  std::vector<std::string> renamed;
  if (made.bundle) {
    auto aside =
        dataplane::abandon_newer(storage, request.checkpoint_directory, survey, *made.bundle);
    if (!aside) return failure(std::move(aside.error()));
    renamed = std::move(*aside);
  } else {
    for (const dataplane::bundle& bundle : survey.readable) {
      auto aside = dataplane::set_aside(storage, request.checkpoint_directory,
                                        dataplane::abandoned_prefix, bundle.name);
      if (!aside) return failure(std::move(aside.error()));
      renamed.push_back(std::move(*aside));
    }
    for (const dataplane::broken_bundle& bundle : survey.broken) {
      auto aside = dataplane::set_aside(storage, request.checkpoint_directory,
                                        dataplane::abandoned_prefix, bundle.name);
      if (!aside) return failure(std::move(aside.error()));
      renamed.push_back(std::move(*aside));
    }
    if (!renamed.empty()) {
      if (auto synced = storage.sync_directory(request.checkpoint_directory); !synced)
        return synced;
    }
  }
  for (const std::string& name : renamed)
    notices.push_back("set aside as " + name + ": it belongs to another history");
  return {};
}

} // namespace

std::vector<weight_version> kept_versions(const restored_states& states) {
  constexpr std::string_view prefix = "policy/weights_";
  std::set<std::uint64_t, std::greater<>> versions;
  for (const auto& [path, bytes] : states.policy) {
    if (!path.starts_with(prefix)) continue;
    std::uint64_t version = 0;
    const char* const end = path.data() + path.size();
    const auto [rest, code] = std::from_chars(path.data() + prefix.size(), end, version);
    if (code == std::errc() && rest != end && *rest == '/') versions.insert(version);
  }
  return {versions.begin(), versions.end()};
}

result<restored_states> read_parts(dataplane::disk& storage, const std::string& path,
                                   const dataplane::bundle& chosen,
                                   const dataplane::job_runner& run_jobs) {
  restored_states states;
  states.bundle = chosen;
  if (auto loaded = load_sections(storage, path, states); !loaded)
    return failure(std::move(loaded.error()));
  auto rows = dataplane::load_snapshot(storage, path, chosen.content, run_jobs);
  if (!rows) return failure(std::move(rows.error()));
  states.rows = std::move(rows->state);
  states.files = std::move(rows->files);
  auto plan = plan_restore(sections_of(states));
  if (!plan)
    return failure(plan.error().code, dataplane::to_string(chosen.name) + ": " + plan.error().text);
  states.plan = std::move(*plan);
  return states;
}

result<restored_states> load_bundle(dataplane::disk& storage, const restore_request& request,
                                    const dataplane::bundle& chosen) {
  const std::string path =
      dataplane::join(request.checkpoint_directory, dataplane::to_string(chosen.name));
  auto loaded = read_parts(storage, path, chosen, request.run_jobs);
  if (!loaded) return loaded;
  restored_states& states = *loaded;
  if (auto policy = load_policy(storage, path, states); !policy)
    return failure(std::move(policy.error()));
  if (request.drop_replay) {
    auto dropped = drop_replay(states.sampler, states.replay);
    if (!dropped) return failure(std::move(dropped.error()));
    states.dropped = std::move(*dropped);
  }
  auto changes = reconcile(states.sampler, states.replay, *request.policy, request.groups_per_step,
                           weight_version(chosen.content.step), request.find_prompt);
  if (!changes) return failure(std::move(changes.error()));
  states.changes = std::move(*changes);
  return loaded;
}

result<begun_life> begin_life(dataplane::disk& storage, dataplane::run_directory& directory,
                              const restore_request& request, const std::string& new_run_id,
                              const restore_check& check) {
  constexpr int attempts_max = 3; // A zombie publishes at most what it had begun.
  begun_life begun;
  begun.run_id = new_run_id;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    auto survey = dataplane::survey_bundles(storage, request.checkpoint_directory);
    if (!survey) return failure(std::move(survey.error()));
    auto made = choose(storage, request, *survey);
    if (!made) return failure(std::move(made.error()));
    if (made->bundle) {
      auto states = load_bundle(storage, request, *made->bundle);
      if (!states) return failure(std::move(states.error()));
      if (auto fine = check(*states); !fine) return failure(std::move(fine.error()));
      begun.run_id = states->bundle.content.run_id;
      begun.states = std::move(*states);
    }
    auto life = directory.raise_incarnation(survey->highest_incarnation);
    if (!life) return failure(std::move(life.error()));
    begun.life = *life;
    if (auto fine = hit_failpoint("restore.raised"); !fine) return failure(std::move(fine.error()));
    auto again = dataplane::survey_bundles(storage, request.checkpoint_directory);
    if (!again) return failure(std::move(again.error()));
    if (again->readable != survey->readable) continue;
    auto aside = set_histories_aside(storage, request, *again, *made, begun.notices);
    if (!aside) return failure(std::move(aside.error()));
    for (const dataplane::bundle& bundle : again->readable) {
      if (made->bundle && bundle.content.epoch <= made->bundle->content.epoch)
        begun.known.push_back(bundle);
    }
    return begun;
  }
  return failure(errc::conflict, request.checkpoint_directory +
                                     ": another process keeps publishing bundles here; stop it");
}

} // namespace weir
