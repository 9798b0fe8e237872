/// Buffers between a segment's file and memory, used again from chunk to chunk and from segment to
/// segment: to touch fresh pages for each would cost more than to decode into them.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace weir::dataplane {

/// Memory that is not cleared before it is overwritten.
class scratch {
public:
  /// What it held before is lost.
  [[nodiscard]] std::span<std::byte> of(std::size_t bytes) {
    if (bytes > size_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    return {memory_.get(), bytes};
  }

private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

/// What one thread needs to load a chunk.
struct chunk_buffer {
  scratch frame;
  scratch shuffled;
};

/// As many buffers as threads ever loaded at the same time. Any thread.
class chunk_buffers {
public:
  [[nodiscard]] std::unique_ptr<chunk_buffer> take() {
    const std::lock_guard held(mutex_);
    if (idle_.empty()) return std::make_unique<chunk_buffer>();
    auto taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
  }
  void give_back(std::unique_ptr<chunk_buffer> used) {
    const std::lock_guard held(mutex_);
    idle_.push_back(std::move(used));
  }

private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<chunk_buffer>> idle_;
};

} // namespace weir::dataplane
