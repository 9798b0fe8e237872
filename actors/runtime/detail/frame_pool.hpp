/// Memory of coroutine frames, from blocks that threads recycle (messages/block_pool.hpp).
///
/// A run queue counts the frames that were made on its turns: none may outlive it. Each frame
/// remembers its queue, so that one that is freed outside a turn is counted too. Once warm, an
/// await allocates nothing.
#pragma once

#include <cstddef>

namespace weir::detail {

/// Memory for a frame, counted by the turn that runs on this thread, if any.
[[nodiscard]] void* allocate_frame(std::size_t bytes);
void free_frame(void* frame) noexcept;

class frame_pool {
public:
  frame_pool() = default;
  frame_pool(const frame_pool&) = delete;
  frame_pool& operator=(const frame_pool&) = delete;
  /// @pre no frame of this pool is alive
  ~frame_pool();

  [[nodiscard]] std::size_t live_frames() const noexcept { return live_frames_; }

private:
  friend void* allocate_frame(std::size_t bytes);
  friend void free_frame(void* frame) noexcept;

  std::size_t live_frames_ = 0;
};

} // namespace weir::detail
