#include "actors/runtime/detail/frame_pool.hpp"

#include "actors/runtime/run_queue.hpp"
#include "messages/block_pool.hpp"
#include "messages/error.hpp"

#include <new>

namespace weir::detail {

namespace {

/// Before each frame.
struct frame_header {
  frame_pool* home; ///< Null for a frame that was made outside turns.
  std::size_t bytes;
};
static_assert(sizeof(frame_header) % __STDCPP_DEFAULT_NEW_ALIGNMENT__ == 0);

} // namespace

frame_pool::~frame_pool() {
  ensure(live_frames_ == 0, "no coroutine outlives its actor");
}

void* allocate_frame(std::size_t bytes) {
  run_queue* queue = run_queue::current();
  frame_pool* home = queue != nullptr ? &queue->frames() : nullptr;
  if (home != nullptr) ++home->live_frames_;
  bytes += sizeof(frame_header);
  return new (take_block(bytes)) frame_header{home, bytes} + 1;
}

void free_frame(void* frame) noexcept {
  auto* header = static_cast<frame_header*>(frame) - 1;
  if (header->home != nullptr) --header->home->live_frames_;
  give_block(header, header->bytes);
}

} // namespace weir::detail
