/// Memory of what is made and dropped with every message: payloads, parcels, coroutine frames.
///
/// One thread makes a message and another one frees it. The C library takes a lock for nearly every
/// such block, and merges and splits it again: several hundred nanoseconds on two busy cores. Here
/// each thread keeps blocks of its own, by size, and what flows from thread to thread does so as a
/// magazine of 64 blocks at a time, under one lock.
///
/// Bounds: a thread keeps two magazines of each size, all threads together `depot_bytes_max` of
/// each size beside them; what is above that, or larger than `block_bytes_max`, goes back to the
/// heap. Under AddressSanitizer nothing is recycled, so that every use after free is seen.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#  define WEIR_RECYCLE_BLOCKS 0
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WEIR_RECYCLE_BLOCKS 0
#  endif
#endif
#ifndef WEIR_RECYCLE_BLOCKS
#  define WEIR_RECYCLE_BLOCKS 1
#endif

namespace weir {

inline constexpr std::size_t block_bytes_max = 2048;
inline constexpr std::size_t depot_bytes_max = std::size_t(16) << 20U;

/// Blocks have sizes in steps: one that was taken for some bytes serves all of its class.
inline constexpr std::size_t block_class_bytes = 32;
constexpr std::size_t block_class(std::size_t bytes) noexcept {
  return (bytes + block_class_bytes - 1) / block_class_bytes;
}

/// Aligned as for `operator new`. Never null: without memory the process ends.
[[nodiscard]] void* take_block(std::size_t bytes);
/// @pre the block was taken for as many bytes. From any thread.
void give_block(void* memory, std::size_t bytes) noexcept;

/// False where a sanitizer must see every use after free.
[[nodiscard]] constexpr bool recycles_blocks() noexcept {
  return WEIR_RECYCLE_BLOCKS == 1;
}
/// Blocks that came from the heap, because none of their size was free. Of this process.
[[nodiscard]] std::uint64_t blocks_from_heap() noexcept;

} // namespace weir

#undef WEIR_RECYCLE_BLOCKS
