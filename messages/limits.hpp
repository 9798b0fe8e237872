/// Every bound of the system, in one place, with the relations between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::limits {

/// Tensors at least this large travel as attachments, beside the FlatBuffer.
inline constexpr std::size_t attachment_threshold_bytes = 64 * 1024;
/// Alignment of an attachment and of a tensor in it.
inline constexpr std::size_t tensor_alignment_bytes = 64;
/// Largest FlatBuffer payload of one frame.
inline constexpr std::size_t payload_bytes_max = 256ULL * 1024 * 1024;
/// Largest attachment of one frame.
inline constexpr std::size_t attachment_bytes_max = 16ULL * 1024 * 1024 * 1024;
/// Most attachments of one frame.
inline constexpr std::size_t attachments_max = 4096;
/// FlatBuffers verifier: nesting and number of tables.
inline constexpr unsigned verifier_depth_max = 32;
inline constexpr unsigned verifier_tables_max = 4'000'000;

/// One line of a JSON Lines dataset.
inline constexpr std::size_t record_bytes_max = 16ULL * 1024 * 1024;
/// Records of one dataset (ids and hashes are kept in memory, the text is not copied).
inline constexpr std::size_t records_max = 100'000'000;

/// Actors of one graph.
inline constexpr std::size_t actors_max = 4096;
/// Coroutines that a dump of one actor shows.
inline constexpr std::size_t dumped_tasks_max = 1000;
/// Answers kept for a leased request that may come twice, per origin.
inline constexpr std::size_t leased_replies_max = 4096;

/// Groups of one step, siblings of one group.
inline constexpr std::uint64_t groups_per_step_max = 1ULL << 20;
inline constexpr std::uint64_t siblings_per_group_max = 1ULL << 16;

static_assert(attachment_threshold_bytes < payload_bytes_max);
static_assert(tensor_alignment_bytes % alignof(std::max_align_t) == 0);

} // namespace weir::limits
