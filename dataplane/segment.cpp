#include "dataplane/segment.hpp"

#include "messages/error.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <new>
#include <tuple>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::align_val_t alignment{limits::tensor_alignment_bytes};
/// From here on memory is mapped by itself; below, a page of its own would be a waste.
constexpr std::uint64_t mapped_bytes_min = std::uint64_t{1} << 20;
/// From here on the system is asked for huge pages: two of them.
constexpr std::uint64_t huge_bytes_min = std::uint64_t{4} << 20;

std::byte* map_memory(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // A refusal costs time, nothing else.
  if (bytes >= huge_bytes_min) std::ignore = ::madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

} // namespace

segment* segment::make(std::uint64_t capacity_bytes) {
  if (capacity_bytes > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  std::byte* memory = nullptr;
  if (capacity_bytes >= mapped_bytes_min)
    memory = map_memory(capacity_bytes);
  else
    memory = static_cast<std::byte*>(::operator new[](capacity_bytes, alignment, std::nothrow));
  return memory == nullptr ? nullptr : new segment(memory, capacity_bytes);
}

segment::~segment() {
  if (mapping_) return;
  if (capacity_ >= mapped_bytes_min)
    ::munmap(memory_, capacity_);
  else
    ::operator delete[](memory_, alignment);
}

std::shared_ptr<segment> segment::allocate(std::uint64_t capacity_bytes) {
  return std::shared_ptr<segment>(make(capacity_bytes));
}

std::shared_ptr<const segment> segment::over_file(std::shared_ptr<const std::byte> mapping,
                                                  std::uint64_t bytes) {
  // Nothing is written through the pointer: `writable` refuses.
  auto* made = new segment(const_cast<std::byte*>(mapping.get()), bytes);
  made->filled_ = bytes;
  made->mapping_ = std::move(mapping);
  return std::shared_ptr<const segment>(made);
}

std::span<const std::byte> segment::bytes(std::uint64_t offset, std::uint64_t size) const {
  ensure(offset <= capacity_ && size <= capacity_ - offset, "an extent lies within its segment");
  return {memory_ + offset, size};
}

std::span<std::byte> segment::writable(std::uint64_t offset, std::uint64_t size) {
  ensure(offset <= capacity_ && size <= capacity_ - offset, "an extent lies within its segment");
  ensure(!mapping_, "a segment on disk is not written to");
  filled_ = std::max(filled_, offset + size);
  return {memory_ + offset, size};
}

// ---- The pool ----------------------------------------------------------------------------------

std::shared_ptr<segment> segment_pool::allocate() {
  std::unique_ptr<segment> found;
  {
    const std::lock_guard held(kept_->mutex);
    if (!kept_->segments.empty()) {
      found = std::move(kept_->segments.back());
      kept_->segments.pop_back();
    }
  }
  if (!found) found.reset(segment::make(kept_->segment_bytes));
  if (!found) return nullptr;
  return std::shared_ptr<segment>(found.release(), [kept = kept_](segment* dead) {
    kept->take_back(std::unique_ptr<segment>(dead));
  });
}

std::uint64_t segment_pool::idle_bytes() const {
  const std::lock_guard held(kept_->mutex);
  return kept_->segments.size() * kept_->segment_bytes;
}

void segment_pool::idle_segments::take_back(std::unique_ptr<segment> dead) {
  if (segment_bytes < mapped_bytes_min) return;
  if (::madvise(dead->memory_, segment_bytes, MADV_FREE) != 0) return;
  dead->filled_ = 0;
  const std::lock_guard held(mutex);
  if ((segments.size() + 1) * segment_bytes <= idle_bytes_max) segments.push_back(std::move(dead));
}

} // namespace weir::dataplane
