#include "messages/block_pool.hpp"

#include "messages/error.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace weir {

namespace {

constexpr std::size_t classes = block_class(block_bytes_max) + 1;
constexpr std::size_t magazine_blocks = 64;

/// A free block. The first one of a magazine also links magazines.
struct block {
  block* next;
  block* next_magazine;
};
static_assert(sizeof(block) <= block_class_bytes);

/// Of each block of a class; the ones for no byte at all are as small as any.
constexpr std::size_t bytes_of(std::size_t size_class) noexcept {
  return std::max<std::size_t>(size_class, 1) * block_class_bytes;
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
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool full() const noexcept { return count_ == magazine_blocks; }
  /// @pre not empty
  [[nodiscard]] void* take() noexcept {
    --count_;
    void* taken = std::exchange(loaded_, loaded_->next);
    // Another core may have freed the next one: have it here before it is asked for.
    __builtin_prefetch(loaded_, 1);
    return taken;
  }
  /// @pre not full
  void give(void* memory) noexcept {
    auto* given = static_cast<block*>(memory);
    given->next = std::exchange(loaded_, given);
    ++count_;
  }
  /// False when nobody has a full magazine. @pre empty
  [[nodiscard]] bool load(std::size_t size_class) noexcept {
    loaded_ = spare_ != nullptr ? std::exchange(spare_, nullptr) : depots[size_class].take();
    if (loaded_ != nullptr) count_ = magazine_blocks;
    return loaded_ != nullptr;
  }
  /// @pre full
  void unload(std::size_t size_class) noexcept {
    const std::size_t limit = depot_bytes_max / (magazine_blocks * bytes_of(size_class));
    if (spare_ != nullptr && !depots[size_class].give(spare_, limit)) free_all(spare_);
    spare_ = std::exchange(loaded_, nullptr);
    count_ = 0;
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
// no check for construction at each use. The model spares a call in a shared library; a pointer
// fits into what the loader reserves for libraries that are loaded late.
[[gnu::tls_model("initial-exec")]] constinit thread_local magazines* mine = nullptr;
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
bool recycled(std::size_t bytes) {
  if (!recycles_blocks() || bytes > block_bytes_max || ended) return false;
  thread_local thread_blocks kept;
  return true;
}

// What `take_block` and `give_block` do seldom is apart from them, so that they save no register.

[[gnu::noinline]] void* take_block_slowly(std::size_t bytes) {
  const std::size_t size_class = block_class(bytes);
  if (recycled(bytes)) {
    if (!mine[size_class].empty() || mine[size_class].load(size_class))
      return mine[size_class].take();
  }
  heap_blocks.fetch_add(1, std::memory_order_relaxed);
  // As much as a recycled one has: a thread that has not ended may free it.
  return from_heap(bytes > block_bytes_max ? bytes : bytes_of(size_class));
}

[[gnu::noinline]] void give_block_slowly(void* memory, std::size_t bytes) noexcept {
  if (!recycled(bytes)) {
    std::free(memory);
    return;
  }
  magazines& kept = mine[block_class(bytes)];
  if (kept.full()) kept.unload(block_class(bytes));
  kept.give(memory);
}

} // namespace

[[gnu::noinline]] void* take_block(std::size_t bytes) {
  magazines* const kept = mine;
  if (kept == nullptr || bytes > block_bytes_max || kept[block_class(bytes)].empty()) [[unlikely]]
    return take_block_slowly(bytes);
  return kept[block_class(bytes)].take();
}

[[gnu::noinline]] void give_block(void* memory, std::size_t bytes) noexcept {
  magazines* const kept = mine;
  if (kept == nullptr || bytes > block_bytes_max || kept[block_class(bytes)].full()) [[unlikely]]
    give_block_slowly(memory, bytes);
  else
    kept[block_class(bytes)].give(memory);
}

std::uint64_t blocks_from_heap() noexcept {
  return heap_blocks.load(std::memory_order_relaxed);
}

} // namespace weir
