/// Memory of coroutine frames: size classes with free lists, one pool per run queue.
///
/// A frame is allocated and freed on its actor's turn. Turns of one actor never overlap (the
/// scheduler orders them), so the pool needs no lock although the actor moves between threads. Each
/// block remembers its pool: a frame that is freed outside a turn still goes home. Once warm, an
/// await allocates nothing. Under AddressSanitizer nothing is recycled, so that a use after free
/// is seen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::detail {

/// Memory for a frame from the pool of the turn that runs on this thread, or from the heap.
[[nodiscard]] void* allocate_frame(std::size_t bytes);
void free_frame(void* frame) noexcept;

class frame_pool {
public:
  frame_pool() = default;
  frame_pool(const frame_pool&) = delete;
  frame_pool& operator=(const frame_pool&) = delete;
  /// @pre no frame of this pool is alive
  ~frame_pool();

  [[nodiscard]] void* allocate(std::size_t bytes);
  /// False where a sanitizer must see every use after free.
  [[nodiscard]] static bool recycles() noexcept;
  [[nodiscard]] std::size_t live_frames() const noexcept { return live_frames_; }
  /// Blocks that came from the heap because no free one of the class was there.
  [[nodiscard]] std::uint64_t heap_allocations() const noexcept { return heap_allocations_; }

private:
  friend void* allocate_frame(std::size_t bytes);
  friend void free_frame(void* frame) noexcept;

  struct block {
    frame_pool* home;
    std::size_t size_class;
    block* next_free;
    std::size_t padding;
  };
  static constexpr std::size_t header_bytes = sizeof(block);
  static constexpr std::size_t class_bytes = 64;
  static constexpr std::size_t classes = 64;

  static block* make_block(std::size_t bytes);

  std::array<block*, classes> free_{};
  std::size_t live_frames_ = 0;
  std::uint64_t heap_allocations_ = 0;
};

} // namespace weir::detail
