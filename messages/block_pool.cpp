#include "messages/block_pool.hpp"

#include "messages/error.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

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

namespace {

constexpr std::size_t class_bytes = 32;
constexpr std::size_t classes = block_bytes_max / class_bytes;
constexpr std::size_t magazine_blocks = 64;

/// A free block. The first one of a magazine also links magazines.
struct block {
  block* next;
  block* next_magazine;
};
static_assert(sizeof(block) <= class_bytes);

/// Blocks of one class: block i of it has (i + 1) * class_bytes.
constexpr std::size_t class_of(std::size_t bytes) noexcept {
  return bytes == 0 ? 0 : (bytes - 1) / class_bytes;
}
constexpr std::size_t bytes_of(std::size_t size_class) noexcept {
  return (size_class + 1) * class_bytes;
}

void* from_heap(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  ensure(memory != nullptr, "there is memory for a message or a coroutine");
  return memory;
}

void free_all(block* first) noexcept {
  while (first != nullptr)
    std::free(std::exchange(first, first->next));
}

/// Full magazines of one class, that no thread holds.
class depot {
public:
  [[nodiscard]] block* take() noexcept {
    const std::lock_guard guard(mutex_);
    if (full_ == nullptr) return nullptr;
    --count_;
    return std::exchange(full_, full_->next_magazine);
  }
  /// False when it holds enough.
  [[nodiscard]] bool give(block* magazine, std::size_t limit) noexcept {
    const std::lock_guard guard(mutex_);
    if (count_ >= limit) return false;
    ++count_;
    magazine->next_magazine = std::exchange(full_, magazine);
    return true;
  }

private:
  std::mutex mutex_;
  block* full_ = nullptr;
  std::size_t count_ = 0;
};

// Both are trivially destroyed: payloads may be dropped by destructors of static objects.
std::array<depot, classes> depots;
std::atomic<std::uint64_t> heap_blocks = 0;

/// What one thread keeps of one class.
class magazines {
public:
  [[nodiscard]] void* take(std::size_t size_class) {
    if (count_ == 0) [[unlikely]] {
      loaded_ = spare_ != nullptr ? std::exchange(spare_, nullptr) : depots[size_class].take();
      if (loaded_ == nullptr) {
        heap_blocks.fetch_add(1, std::memory_order_relaxed);
        return from_heap(bytes_of(size_class));
      }
      count_ = magazine_blocks;
    }
    --count_;
    void* taken = std::exchange(loaded_, loaded_->next);
    // Another core may have freed the next one: have it here before it is asked for.
    __builtin_prefetch(loaded_, 1);
    return taken;
  }
  void give(void* memory, std::size_t size_class) noexcept {
    if (count_ == magazine_blocks) [[unlikely]] {
      const std::size_t limit = depot_bytes_max / (magazine_blocks * bytes_of(size_class));
      if (spare_ != nullptr && !depots[size_class].give(spare_, limit)) free_all(spare_);
      spare_ = std::exchange(loaded_, nullptr);
      count_ = 0;
    }
    loaded_ = new (memory) block{loaded_, nullptr};
    ++count_;
  }
  void free_both() noexcept {
    free_all(std::exchange(loaded_, nullptr));
    free_all(std::exchange(spare_, nullptr));
    count_ = 0;
  }

private:
  block* loaded_ = nullptr;
  std::size_t count_ = 0;  ///< Blocks in `loaded_`.
  block* spare_ = nullptr; ///< Full, or null.
};

// What this thread keeps, by class. Null before its first block and after its last: a pointer costs
// no check for construction at each use.
thread_local magazines* mine = nullptr;
thread_local bool ended = false;

struct thread_blocks {
  thread_blocks() { mine = sizes.data(); }
  thread_blocks(const thread_blocks&) = delete;
  thread_blocks& operator=(const thread_blocks&) = delete;
  ~thread_blocks() {
    mine = nullptr;
    ended = true; // what this thread frees from here on goes to the heap
    for (magazines& each : sizes)
      each.free_both();
  }
  std::array<magazines, classes> sizes;
};

/// Whether this thread recycles blocks of so many bytes.
[[gnu::noinline]] bool begin(std::size_t bytes) {
  if (WEIR_RECYCLE_BLOCKS == 0 || bytes > block_bytes_max || ended) return false;
  thread_local thread_blocks kept;
  return true;
}

bool recycled(std::size_t bytes) {
  return (mine != nullptr && bytes <= block_bytes_max) || begin(bytes);
}

} // namespace

[[gnu::noinline]] void* take_block(std::size_t bytes) {
  if (recycled(bytes)) [[likely]]
    return mine[class_of(bytes)].take(class_of(bytes));
  heap_blocks.fetch_add(1, std::memory_order_relaxed);
  // As much as a recycled one has: a thread that has not ended may free it.
  return from_heap(bytes > block_bytes_max ? bytes : bytes_of(class_of(bytes)));
}

[[gnu::noinline]] void give_block(void* memory, std::size_t bytes) noexcept {
  if (recycled(bytes)) [[likely]]
    mine[class_of(bytes)].give(memory, class_of(bytes));
  else
    std::free(memory);
}

bool recycles_blocks() noexcept {
  return WEIR_RECYCLE_BLOCKS == 1;
}

std::uint64_t blocks_from_heap() noexcept {
  return heap_blocks.load(std::memory_order_relaxed);
}

} // namespace weir
