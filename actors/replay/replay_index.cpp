#include "actors/replay/replay_index.hpp"

#include "actors/section.hpp"
#include "messages/limits.hpp"
#include "messages/schemas.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace weir {

namespace {

const std::string section_file = "replay_buffer_metadata.fb";

tl::unexpected<error> corrupt(const std::string& text) {
  return failure(errc::corrupt, section_file + ": " + text + "; use another bundle");
}

std::unique_ptr<ReplayRecordT> pack(const replay_record& record) {
  auto packed = std::make_unique<ReplayRecordT>();
  packed->group = record.group.value;
  packed->sample = std::make_unique<SampleId>(record.sample.epoch, record.sample.position);
  packed->content_attempt = record.content_attempt;
  packed->dispatch_index = record.dispatch_index;
  packed->target_step = record.target_step;
  packed->admission_version = record.admission_version.value;
  packed->start_version = record.start_version.value;
  packed->end_version = record.end_version.value;
  packed->window = record.window;
  packed->claimed_for = record.claimed_for;
  packed->rows.reserve(record.rows.size());
  for (const row_id row : record.rows)
    packed->rows.push_back(row.value);
  if (record.hash)
    packed->content_hash = std::make_unique<Hash128>(record.hash->low, record.hash->high);
  packed->task = record.task;
  return packed;
}

result<replay_record> unpack(const ReplayRecordT& packed) {
  if (packed.sample == nullptr)
    return corrupt("group " + std::to_string(packed.group) + " has no sample id");
  replay_record record;
  record.group = group_id(packed.group);
  record.sample = {.epoch = packed.sample->epoch(), .position = packed.sample->position()};
  record.content_attempt = packed.content_attempt;
  record.dispatch_index = packed.dispatch_index;
  record.target_step = packed.target_step;
  record.admission_version = weight_version(packed.admission_version);
  record.window = packed.window;
  record.start_version = weight_version(packed.start_version);
  record.end_version = weight_version(packed.end_version);
  record.claimed_for = packed.claimed_for;
  record.rows.reserve(packed.rows.size());
  for (const std::uint64_t row : packed.rows)
    record.rows.emplace_back(row);
  if (packed.content_hash != nullptr)
    record.hash =
        content_hash{.low = packed.content_hash->low(), .high = packed.content_hash->high()};
  record.task = packed.task;
  return record;
}

result<void> unpack_drops(const std::vector<std::unique_ptr<DropTotalT>>& packed,
                          drop_tallies& dropped) {
  for (const auto& one : packed) {
    const auto reason = static_cast<std::size_t>(one->reason);
    if (reason >= drop_reasons || one->sum == nullptr)
      return corrupt("a total of dropped groups has the unknown reason " + std::to_string(reason));
    group_tally& total = dropped.by_reason[reason];
    if (total.count != 0) return corrupt("the groups dropped for one reason are counted twice");
    total = {.count = one->count, .sum_low = one->sum->low(), .sum_high = one->sum->high()};
  }
  return {};
}

std::optional<std::string> fault_of(std::uint64_t key, const replay_record& record) {
  if (record.group.value != key) return "stands under another id";
  if (record.rows.empty()) return "has no rows";
  if (record.rows.size() > limits::siblings_per_group_max) return "has too many rows";
  if (record.dispatch_index < 0) return "has no dispatch index";
  if (record.target_step < -1) return "has a negative target step";
  if (record.claimed_for < -1) return "is claimed for a negative step";
  if (record.end_version < record.start_version) return "ends at older weights than it starts";
  return std::nullopt;
}

} // namespace

void replay_image::put(replay_record record) {
  erase(record.group);
  (record.claimed_for < 0 ? ready : claimed).add(record.group);
  const std::uint64_t key = record.group.value;
  index.insert_or_assign(key, std::make_shared<const replay_record>(std::move(record)));
}

void replay_image::erase(group_id group) {
  const replay_record* record = find(group);
  if (record == nullptr) return;
  (record->claimed_for < 0 ? ready : claimed).remove(group);
  index.erase(group.value);
}

const replay_record* replay_image::find(group_id group) const {
  const auto* record = index.find(group.value);
  return record == nullptr ? nullptr : record->get();
}

void add_tallies(const replay_image& image, cut_tallies& tallies) {
  tallies.of(group_state::ready) += image.ready;
  tallies.of(group_state::claimed) += image.claimed;
  tallies.of(group_state::consumed) += image.consumed;
  tallies.of(group_state::dropped) += image.dropped.total();
}

std::vector<replay_record> in_dispatch_order(const replay_map& index) {
  std::vector<replay_record> records;
  records.reserve(index.size());
  index.for_each([&records](std::uint64_t, const std::shared_ptr<const replay_record>& record) {
    records.push_back(*record);
  });
  std::ranges::sort(records, {}, [](const replay_record& record) {
    return std::tuple(record.dispatch_index, record.group);
  });
  return records;
}

std::vector<std::byte> encode(const replay_image& image, epoch_id epoch) {
  ReplayMetadataT packed;
  packed.format_version = replay_metadata_format;
  packed.epoch_id = std::make_unique<EpochId>(epoch.incarnation, epoch.life, epoch.number);
  image.index.for_each([&](std::uint64_t, const std::shared_ptr<const replay_record>& record) {
    packed.groups.push_back(pack(*record));
  });
  packed.consumed = image.consumed.count;
  packed.consumed_sum = std::make_unique<Hash128>(image.consumed.sum_low, image.consumed.sum_high);
  for (std::size_t reason = 0; reason < drop_reasons; ++reason) {
    const group_tally& total = image.dropped.by_reason[reason];
    if (total.count == 0) continue;
    auto one = std::make_unique<DropTotalT>();
    one->reason = static_cast<DropReason>(reason);
    one->count = total.count;
    one->sum = std::make_unique<Hash128>(total.sum_low, total.sum_high);
    packed.dropped.push_back(std::move(one));
  }
  return pack_section(packed);
}

result<decoded_replay> decode_replay(std::span<const std::byte> section) {
  auto packed = unpack_section<ReplayMetadata>(section, section_file, replay_metadata_format);
  if (!packed) return failure(packed.error());
  if (packed->epoch_id == nullptr || packed->consumed_sum == nullptr)
    return corrupt("the epoch or the total of consumed groups is missing");
  decoded_replay decoded;
  decoded.epoch = {.incarnation = packed->epoch_id->incarnation(),
                   .life = packed->epoch_id->life(),
                   .number = packed->epoch_id->number()};
  decoded.image.consumed = {.count = packed->consumed,
                            .sum_low = packed->consumed_sum->low(),
                            .sum_high = packed->consumed_sum->high()};
  for (const auto& one : packed->groups) {
    auto record = unpack(*one);
    if (!record) return failure(record.error());
    if (decoded.image.find(record->group) != nullptr)
      return corrupt("group " + std::to_string(one->group) + " stands in the index twice");
    decoded.image.put(std::move(*record));
  }
  if (auto done = unpack_drops(packed->dropped, decoded.image.dropped); !done)
    return failure(done.error());
  if (auto done = check_image(decoded.image); !done) return failure(done.error());
  return decoded;
}

result<void> check_image(const replay_image& image) {
  std::optional<std::string> fault;
  std::set<row_id> rows;
  image.index.for_each([&](std::uint64_t key, const std::shared_ptr<const replay_record>& record) {
    fault = fault_of(key, *record);
    for (const row_id row : record->rows)
      if (!fault && !rows.insert(row).second)
        fault = "owns row " + std::to_string(row.value) + ", which another sibling owns";
    if (fault) fault = "group " + std::to_string(key) + " " + *fault;
    return !fault;
  });
  if (fault) return corrupt(*fault);
  return {};
}

} // namespace weir
