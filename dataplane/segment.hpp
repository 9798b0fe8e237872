/// An arena of payload bytes. It only grows at its end, and bytes that were handed out never change
/// again: views, snapshots and writers read them from any thread, with no lock, while the store
/// appends behind them. Whoever holds a `shared_ptr` to a segment pins it.
#pragma once

#include "messages/limits.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace weir::dataplane {

class segment {
public:
  /// Reserves `capacity_bytes` of memory, 64-byte aligned; pages are touched as they are filled.
  /// Null if the system has no memory.
  [[nodiscard]] static std::shared_ptr<segment> allocate(std::uint64_t capacity_bytes);

  /// A segment whose bytes lie in a file, mapped; nobody fills it any more.
  [[nodiscard]] static std::shared_ptr<const segment>
  over_file(std::shared_ptr<const std::byte> mapping, std::uint64_t bytes);

  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;
  ~segment();

  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  /// Bytes of an extent that was handed out. @pre the extent lies within the capacity
  [[nodiscard]] std::span<const std::byte> bytes(std::uint64_t offset, std::uint64_t size) const;
  /// The same for the one who fills it, before anybody else may see it.
  [[nodiscard]] std::span<std::byte> writable(std::uint64_t offset, std::uint64_t size);
  /// Where the bytes end that were filled so far. Only for the thread that fills it.
  [[nodiscard]] std::uint64_t filled() const { return filled_; }

  /// Whether its bytes lie in a file.
  [[nodiscard]] bool on_disk() const { return mapping_ != nullptr; }
  /// When its store last wrote or read it, in sequence numbers.
  [[nodiscard]] std::uint64_t touched() const { return touched_.load(std::memory_order_relaxed); }
  void touch(std::uint64_t sequence) const { touched_.store(sequence, std::memory_order_relaxed); }

private:
  friend class segment_pool;
  segment(std::byte* memory, std::uint64_t capacity_bytes)
      : memory_(memory), capacity_(capacity_bytes) {}
  [[nodiscard]] static segment* make(std::uint64_t capacity_bytes);

  std::byte* memory_;
  std::uint64_t capacity_;
  std::uint64_t filled_ = 0;
  mutable std::atomic<std::uint64_t> touched_ = 0;
  /// Of a file; null: memory of its own.
  std::shared_ptr<const std::byte> mapping_;
};

/// Segments of one size. The memory of dead ones is used again: to touch fresh pages costs four
/// times the copy into them. While it is idle the system may take its pages at any time, without
/// asking (they count as free memory once it is short), so that what was cleared is given back.
///
/// Segments may die on any thread, and after the pool.
class segment_pool {
public:
  /// `idle_bytes_max`: what is kept at most; beyond it memory is unmapped at once.
  segment_pool(std::uint64_t segment_bytes, std::uint64_t idle_bytes_max)
      : kept_(std::make_shared<idle_segments>(segment_bytes, idle_bytes_max)) {}

  /// Null if the system has no memory.
  [[nodiscard]] std::shared_ptr<segment> allocate();
  [[nodiscard]] std::uint64_t segment_bytes() const { return kept_->segment_bytes; }
  /// Memory of dead segments that is kept at present.
  [[nodiscard]] std::uint64_t idle_bytes() const;

private:
  struct idle_segments {
    idle_segments(std::uint64_t size, std::uint64_t most)
        : segment_bytes(size), idle_bytes_max(most) {}
    void take_back(std::unique_ptr<segment> dead);

    const std::uint64_t segment_bytes;
    const std::uint64_t idle_bytes_max;
    std::mutex mutex;
    std::vector<std::unique_ptr<segment>> segments;
  };
  std::shared_ptr<idle_segments> kept_;
};

/// Next multiple of the alignment of tensors.
[[nodiscard]] constexpr std::uint64_t align_tensor(std::uint64_t offset) noexcept {
  constexpr std::uint64_t alignment = limits::tensor_alignment_bytes;
  return (offset + alignment - 1) / alignment * alignment;
}

} // namespace weir::dataplane
