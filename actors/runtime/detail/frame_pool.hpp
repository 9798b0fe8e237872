/// Memory of coroutine frames, from blocks that threads recycle (messages/block_pool.hpp).
///
/// A run queue counts the frames that were made on its turns: none may outlive it. Each frame
/// remembers its queue, so that one that is freed outside a turn is counted too. A queue keeps one
/// small frame of each size that it freed, for the next call of a coroutine like that one: a call
/// and a return in a loop stay inside the actor. Once warm, an await allocates nothing.
#pragma once

#include "messages/block_pool.hpp"

#include <array>
#include <cstddef>

namespace weir {
class run_queue;
} // namespace weir

namespace weir::detail {

class frame_pool;

/// Before each frame.
struct alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) frame_header {
  frame_pool* home; ///< Null for a frame that was made outside turns.
};

/// The class of the blocks that frames of so many bytes have. A constant where a coroutine is made.
constexpr std::size_t frame_class(std::size_t bytes) noexcept {
  return block_class(bytes + sizeof(frame_header));
}

/// Memory for a frame, counted by the turn that runs on this thread, if any.
[[nodiscard]] void* allocate_frame(std::size_t size_class);
/// @pre `frame` was allocated with the same class
void free_frame(void* frame, std::size_t size_class) noexcept;

/// The only thread-local of the runtime: an allocation function of a coroutine has no other way to
/// learn whose turn it is. Named only by functions that are not inlined into coroutines: one of
/// those may continue on another thread, and must not keep the address. All others ask
/// run_queue::current(). The model spares a call in a shared library.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local run_queue* current_queue;

class frame_pool {
public:
  frame_pool() = default;
  frame_pool(const frame_pool&) = delete;
  frame_pool& operator=(const frame_pool&) = delete;
  /// @pre no frame of this pool is alive
  ~frame_pool();

  [[nodiscard]] std::size_t live_frames() const noexcept { return live_frames_; }

private:
  friend void* allocate_frame(std::size_t size_class);
  friend void free_frame(void* frame, std::size_t size_class) noexcept;

  /// Of these classes one is kept: blocks of up to 512 bytes. Of none where a sanitizer looks.
  static constexpr std::size_t kept_classes = recycles_blocks() ? 17 : 0;

  std::size_t live_frames_ = 0;
  std::array<frame_header*, kept_classes> kept_ = {};
};

} // namespace weir::detail
