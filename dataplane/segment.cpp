#include "dataplane/segment.hpp"

#include "messages/error.hpp"

#include <limits>
#include <new>

namespace weir::dataplane {

namespace {
constexpr std::align_val_t alignment{limits::tensor_alignment_bytes};
} // namespace

void segment::aligned_delete::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, alignment);
}

std::shared_ptr<segment> segment::allocate(std::uint64_t capacity_bytes) {
  if (capacity_bytes > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  void* memory = ::operator new[](capacity_bytes, alignment, std::nothrow);
  if (memory == nullptr) return nullptr;
  return std::shared_ptr<segment>(new segment(static_cast<std::byte*>(memory), capacity_bytes));
}

std::span<const std::byte> segment::bytes(std::uint64_t offset, std::uint64_t size) const {
  ensure(offset <= capacity_ && size <= capacity_ - offset, "an extent lies within its segment");
  return {memory_.get() + offset, size};
}

std::span<std::byte> segment::writable(std::uint64_t offset, std::uint64_t size) {
  ensure(offset <= capacity_ && size <= capacity_ - offset, "an extent lies within its segment");
  return {memory_.get() + offset, size};
}

} // namespace weir::dataplane
