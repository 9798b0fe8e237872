#include "examples/weir/bundle_view.hpp"

#include "dataplane/snapshot_file.hpp"
#include "kernels/json_value.hpp"
#include "kernels/safetensors.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

constexpr std::string_view segments_folder = "data_plane/segments/";
constexpr std::uint64_t json_bytes_max = 16ULL * 1024 * 1024;
constexpr int links_max = 8;

/// "step_2 step_4": what could have been meant.
std::string bundles_in(dataplane::disk& storage, const std::string& directory) {
  std::string names;
  const auto survey = dataplane::survey_bundles(storage, directory);
  if (survey)
    for (const dataplane::bundle& one : survey->readable)
      names += " " + to_string(one.name);
  return names;
}

/// A policy's file is what its name says. Mapped: weights may be larger than memory.
result<void> check_kind(dataplane::file& opened, const std::string& name, std::uint64_t bytes) {
  const bool tensors = name.ends_with(".safetensors");
  if (!tensors && !name.ends_with(".json")) return {};
  if (bytes == 0) return failure(errc::corrupt, "is empty");
  if (!tensors && bytes > json_bytes_max)
    return failure(errc::corrupt, "is too large for what it is");
  const auto mapped = opened.map(bytes);
  if (!mapped) return failure(mapped.error());
  const std::span content(mapped->get(), bytes);
  if (tensors) {
    const auto read = kernels::read_safetensors(content);
    return read ? result<void>() : failure(read.error());
  }
  const auto read =
      kernels::parse_json({reinterpret_cast<const char*>(content.data()), content.size()});
  return read ? result<void>() : failure(read.error());
}

result<void> check_file(dataplane::disk& storage, const std::string& path,
                        const dataplane::manifest_file& expected) {
  const auto opened = dataplane::open_listed_file(storage, path, expected);
  if (!opened) return failure(opened.error());
  auto fine = check_kind(**opened, expected.path, expected.bytes);
  if (!fine) return failure(errc::corrupt, path + ": " + fine.error().text);
  return {};
}

} // namespace

result<std::string> bundle_path(dataplane::disk& storage, const std::string& named) {
  std::string path = named;
  for (int links = 0; links < links_max; ++links) {
    while (path.size() > 1 && path.ends_with('/'))
      path.pop_back();
    const auto status = storage.stat(path);
    if (!status && status.error().code == errc::not_found)
      return failure(errc::not_found, path + ": does not exist");
    if (!status) return failure(status.error());
    if (status->kind == dataplane::entry_kind::symlink) {
      auto target = storage.read_symlink(path);
      if (!target) return failure(std::move(target.error()));
      path =
          target->starts_with('/') ? *target : dataplane::join(dataplane::parent_of(path), *target);
      continue;
    }
    if (status->kind != dataplane::entry_kind::directory)
      return failure(errc::not_found, path + ": is not a directory; name that of a bundle");
    if (storage.stat(dataplane::join(path, dataplane::manifest_name))) return path;
    std::string found = bundles_in(storage, path);
    if (found.empty()) found = bundles_in(storage, dataplane::join(path, "checkpoints"));
    if (found.empty()) return path; // A bundle without its manifest: its reader says so.
    return failure(errc::invalid_argument,
                   path + ": is no bundle, but has some; name one of them:" + found);
  }
  return failure(errc::not_found, named + ": a link that leads nowhere");
}

std::vector<dataplane::bundle_problem>
check_files(dataplane::disk& storage, const std::string& path, const dataplane::manifest& content) {
  std::vector<dataplane::bundle_problem> problems;
  for (const dataplane::manifest_file& file : content.files)
    if (auto fine = check_file(storage, dataplane::join(path, file.path), file); !fine)
      problems.push_back({file.path, std::move(fine.error())});
  return problems;
}

result<bundle_view> view_bundle(dataplane::disk& storage, const std::string& path) {
  auto opened = dataplane::open_bundle_at(storage, path);
  if (!opened) return failure(std::move(opened.error()));
  if (opened->content.find("rollout_recovery.fb") == nullptr) {
    auto rows = dataplane::load_snapshot(storage, path, opened->content);
    if (!rows) return failure(std::move(rows.error()));
    bundle_view alone{path, {}, false};
    alone.parts.bundle = std::move(*opened);
    alone.parts.rows = std::move(rows->state);
    return alone;
  }
  auto parts = read_parts(storage, path, *opened);
  if (!parts) return failure(std::move(parts.error()));
  return bundle_view{path, std::move(*parts), true};
}

result<void> for_each_segment(dataplane::disk& storage, const bundle_view& bundle,
                              const std::function<void(const segment_view&)>& see) {
  for (const dataplane::manifest_file& file : bundle.parts.bundle.content.files) {
    if (!file.path.starts_with(segments_folder)) continue;
    const std::string path = dataplane::join(bundle.path, file.path);
    auto opened = storage.open(path);
    if (!opened) return failure(std::move(opened.error()));
    auto content = dataplane::read_segment(**opened);
    if (!content) return failure(content.error().code, path + ": " + content.error().text);
    segment_view seen;
    seen.id = content->header.segment;
    seen.file_bytes = file.bytes;
    seen.content = std::move(*content);
    seen.sharers = dataplane::sharers_of(storage, bundle.path, file.path);
    see(seen);
  }
  return {};
}

std::vector<group_standing> groups_of(const restored_states& parts) {
  std::vector<group_standing> groups;
  for (const replay_record& record : in_dispatch_order(parts.replay.index))
    groups.push_back({record.group,
                      record.claimed_for < 0 ? group_state::ready : group_state::claimed,
                      record.sample, record.target_step});
  for (const ledger_record& record : in_dispatch_order(parts.sampler.ledger))
    groups.push_back(
        {record.group,
         record.phase == group_phase::admitted ? group_state::admitted : group_state::reserved,
         record.sample, record.target_step});
  parts.sampler.reserve.for_each([&groups](std::uint64_t group, const auto& spare) {
    groups.push_back({group_id(group), group_state::in_reserve, spare->sample, -1});
  });
  std::ranges::sort(groups, {}, &group_standing::group);
  return groups;
}

std::span<const std::byte> bytes_of(const dataplane::contents& all, const dataplane::cell& one) {
  if (one.bytes == 0) return {}; // It names no segment.
  return all.segments.find(one.segment)->memory->bytes(one.offset, one.bytes);
}

std::string short_text(epoch_id epoch) {
  return std::to_string(epoch.incarnation) + "/" + std::to_string(epoch.life) + "/" +
         std::to_string(epoch.number);
}

} // namespace weir
