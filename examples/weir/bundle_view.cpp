#include "examples/weir/bundle_view.hpp"

#include "dataplane/snapshot_file.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

constexpr std::string_view segments_folder = "data_plane/segments/";

} // namespace

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
