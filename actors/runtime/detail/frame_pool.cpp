#include "actors/runtime/detail/frame_pool.hpp"

#include "actors/runtime/run_queue.hpp"
#include "messages/error.hpp"

#include <new>
#include <utility>

namespace weir::detail {

namespace {

constexpr std::size_t bytes_of(std::size_t size_class) noexcept {
  return size_class * block_class_bytes;
}

// Apart from the common way, which then saves no register.
[[gnu::noinline]] void* take_frame(std::size_t size_class, frame_pool* home) {
  return new (take_block(bytes_of(size_class))) frame_header{home} + 1;
}

} // namespace

constinit thread_local run_queue* current_queue = nullptr;

frame_pool::~frame_pool() {
  ensure(live_frames_ == 0, "no coroutine outlives its actor");
  for (std::size_t size_class = 0; size_class < kept_classes; ++size_class) {
    if (kept_[size_class] != nullptr) give_block(kept_[size_class], bytes_of(size_class));
  }
}

void* allocate_frame(std::size_t size_class) {
  run_queue* const queue = current_queue;
  if (queue == nullptr) return take_frame(size_class, nullptr);
  frame_pool& home = queue->frames();
  ++home.live_frames_;
  if (size_class < frame_pool::kept_classes && home.kept_[size_class] != nullptr) [[likely]]
    return std::exchange(home.kept_[size_class], nullptr) + 1;
  return take_frame(size_class, &home);
}

void free_frame(void* frame, std::size_t size_class) noexcept {
  frame_header* const header = static_cast<frame_header*>(frame) - 1;
  if (frame_pool* const home = header->home) {
    --home->live_frames_;
    if (size_class < frame_pool::kept_classes && home->kept_[size_class] == nullptr) [[likely]] {
      home->kept_[size_class] = header;
      return;
    }
  }
  give_block(header, bytes_of(size_class));
}

} // namespace weir::detail
