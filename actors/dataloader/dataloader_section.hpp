/// `train_dataloader.fb`: the dataloader's cursor as bytes, and the events of moving it.
#pragma once

#include "actors/audit/event.hpp"
#include "actors/dataloader/dataloader_state.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace weir {

inline constexpr std::uint32_t dataloader_section_format = 1;

/// The bytes of the section. Runs off the barrier, on any thread.
[[nodiscard]] std::vector<std::byte> encode(const dataloader_cursor& cursor, epoch_id epoch);

/// A section that was read back.
struct decoded_dataloader {
  dataloader_cursor cursor;
  epoch_id epoch;
};

/// Reads the section. Errors: corrupt for bytes that fail verification or miss a field;
/// unsupported for a newer format. Whether the numbers fit the dataset is `dataloader_state::load`.
[[nodiscard]] result<decoded_dataloader> decode_dataloader(std::span<const std::byte> section);

/// One event per epoch that the batch touches. @pre the state reserved it already
[[nodiscard]] std::vector<handed_out_event> handed_out_parts(const dataloader_state& state,
                                                             group_id first, std::uint64_t count);

} // namespace weir
