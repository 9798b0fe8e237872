/// The reserve on disk: `replacement_reserve.fb`, in a bundle only if there are spares. How many
/// there are stands in `rollout_recovery.fb`, so that a file that is missing is noticed.
#pragma once

#include "actors/sampler/ledger.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir {

inline constexpr const char* replacement_reserve_file = "replacement_reserve.fb";
inline constexpr std::uint32_t replacement_reserve_format = 1;

/// The bytes of the file. Runs off the barrier, on any thread.
[[nodiscard]] std::vector<std::byte> encode_reserve(const sampler_image& image, epoch_id epoch);

/// Puts the spares of the file into `ledger.image`, all or nothing. `section` is empty where the
/// bundle has no such file. Errors: corrupt for bytes that fail verification, another number of
/// spares than announced, a spare twice or in the ledger too; unsupported for a newer format.
[[nodiscard]] result<void> decode_reserve(std::span<const std::byte> section,
                                          decoded_sampler& ledger);

} // namespace weir
