/// An arena of payload bytes. It only grows at its end, and bytes that were handed out never change
/// again: views, snapshots and writers read them from any thread, with no lock, while the store
/// appends behind them. Whoever holds a `shared_ptr` to a segment pins it.
#pragma once

#include "messages/limits.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace weir::dataplane {

class segment {
public:
  /// Reserves `capacity_bytes` of memory, 64-byte aligned; pages are touched as they are filled.
  /// Null if the system has no memory.
  [[nodiscard]] static std::shared_ptr<segment> allocate(std::uint64_t capacity_bytes);

  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;
  ~segment() = default;

  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  /// Bytes of an extent that was handed out. @pre the extent lies within the capacity
  [[nodiscard]] std::span<const std::byte> bytes(std::uint64_t offset, std::uint64_t size) const;
  /// The same for the one who fills it, before anybody else may see it.
  [[nodiscard]] std::span<std::byte> writable(std::uint64_t offset, std::uint64_t size);

private:
  struct aligned_delete {
    void operator()(std::byte* memory) const noexcept;
  };
  segment(std::byte* memory, std::uint64_t capacity_bytes)
      : memory_(memory), capacity_(capacity_bytes) {}

  std::unique_ptr<std::byte[], aligned_delete> memory_;
  std::uint64_t capacity_;
};

/// Next multiple of the alignment of tensors.
[[nodiscard]] constexpr std::uint64_t align_tensor(std::uint64_t offset) noexcept {
  constexpr std::uint64_t alignment = limits::tensor_alignment_bytes;
  return (offset + alignment - 1) / alignment * alignment;
}

} // namespace weir::dataplane
