#include "actors/runtime/detail/frame_pool.hpp"

#include "actors/runtime/run_queue.hpp"
#include "messages/error.hpp"

#include <new>

#if defined(__SANITIZE_ADDRESS__)
#  define WEIR_RECYCLE_FRAMES 0
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WEIR_RECYCLE_FRAMES 0
#  endif
#endif
#ifndef WEIR_RECYCLE_FRAMES
#  define WEIR_RECYCLE_FRAMES 1
#endif

namespace weir::detail {

bool frame_pool::recycles() noexcept {
  return WEIR_RECYCLE_FRAMES == 1;
}

frame_pool::~frame_pool() {
  ensure(live_frames_ == 0, "no coroutine outlives its actor");
  for (block* head : free_) {
    while (head != nullptr)
      ::operator delete(std::exchange(head, head->next_free));
  }
}

frame_pool::block* frame_pool::make_block(std::size_t bytes) {
  void* memory = ::operator new(header_bytes + bytes, std::nothrow);
  ensure(memory != nullptr, "there is memory for a coroutine frame");
  return new (memory) block{nullptr, classes, nullptr, 0};
}

void* frame_pool::allocate(std::size_t bytes) {
  const std::size_t size_class = (bytes + class_bytes - 1) / class_bytes;
  ++live_frames_;
  block* taken = nullptr;
  if (size_class < classes && free_[size_class] != nullptr) {
    taken = std::exchange(free_[size_class], free_[size_class]->next_free);
  } else {
    taken = make_block(size_class * class_bytes);
    taken->home = this;
    taken->size_class = size_class;
    ++heap_allocations_;
  }
  return reinterpret_cast<std::byte*>(taken) + header_bytes;
}

void* allocate_frame(std::size_t bytes) {
  if (run_queue* queue = run_queue::current()) return queue->frames().allocate(bytes);
  return reinterpret_cast<std::byte*>(frame_pool::make_block(bytes)) + frame_pool::header_bytes;
}

void free_frame(void* frame) noexcept {
  auto* freed = reinterpret_cast<frame_pool::block*>(static_cast<std::byte*>(frame) -
                                                     frame_pool::header_bytes);
  frame_pool* home = freed->home;
  if (home == nullptr) {
    ::operator delete(freed);
    return;
  }
  --home->live_frames_;
  if (WEIR_RECYCLE_FRAMES == 0 || freed->size_class >= frame_pool::classes) {
    ::operator delete(freed);
    return;
  }
  freed->next_free = std::exchange(home->free_[freed->size_class], freed);
}

} // namespace weir::detail
