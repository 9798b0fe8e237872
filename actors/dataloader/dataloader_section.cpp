#include "actors/dataloader/dataloader_section.hpp"

#include "actors/section.hpp"
#include "messages/schemas.hpp"

#include <algorithm>
#include <string>

namespace weir {

std::vector<std::byte> encode(const dataloader_cursor& cursor, epoch_id epoch) {
  DataloaderSectionT section;
  section.format_version = dataloader_section_format;
  section.epoch_id = std::make_unique<EpochId>(epoch.incarnation, epoch.life, epoch.number);
  section.next_group = cursor.ordinal;
  section.epoch = cursor.epoch;
  section.position = cursor.position;
  section.shuffle_seed = cursor.shuffle_seed;
  section.shuffle = cursor.shuffle;
  section.dataset_fingerprint =
      std::make_unique<Hash128>(cursor.dataset_fingerprint.low, cursor.dataset_fingerprint.high);
  section.dataset_length = cursor.dataset_length;
  section.handed_out = cursor.handed_out.count;
  section.handed_out_sum =
      std::make_unique<Hash128>(cursor.handed_out.sum_low, cursor.handed_out.sum_high);
  return pack_section(section);
}

result<decoded_dataloader> decode_dataloader(std::span<const std::byte> section) {
  const std::string file = "train_dataloader.fb";
  const auto read = unpack_section<DataloaderSection>(section, file, dataloader_section_format);
  if (!read) return failure(read.error());
  if (read->epoch_id == nullptr || read->dataset_fingerprint == nullptr ||
      read->handed_out_sum == nullptr)
    return failure(errc::corrupt, file + ": a field is missing; use another bundle");
  decoded_dataloader decoded;
  dataloader_cursor& cursor = decoded.cursor;
  cursor.ordinal = read->next_group;
  cursor.epoch = read->epoch;
  cursor.position = read->position;
  cursor.shuffle = read->shuffle;
  cursor.shuffle_seed = read->shuffle_seed;
  cursor.dataset_fingerprint = {read->dataset_fingerprint->low(),
                                read->dataset_fingerprint->high()};
  cursor.dataset_length = read->dataset_length;
  cursor.handed_out = {read->handed_out, read->handed_out_sum->low(), read->handed_out_sum->high()};
  decoded.epoch = {read->epoch_id->incarnation(), read->epoch_id->life(), read->epoch_id->number()};
  return decoded;
}

std::vector<handed_out_event> handed_out_parts(const dataloader_state& state, group_id first,
                                               std::uint64_t count) {
  const std::uint64_t length = state.records().size();
  std::vector<handed_out_event> parts;
  while (count > 0) {
    handed_out_event part;
    part.first = first;
    part.sample = {first.value / length, first.value % length};
    part.count = std::min(count, length - part.sample.position);
    first = group_id(first.value + part.count);
    count -= part.count;
    parts.push_back(part);
  }
  return parts;
}

} // namespace weir
