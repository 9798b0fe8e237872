#include "dataplane/snapshot_files.hpp"

#include "messages/error.hpp"

#include <algorithm>

namespace weir::dataplane {

void segment_layout::add(std::uint64_t offset, std::uint64_t bytes, std::uint64_t position) {
  ensure(bytes > 0, "a run has bytes");
  runs_.push_back({offset, bytes, position});
}

void segment_layout::finish() {
  std::ranges::sort(runs_, {}, &run::offset);
  runs_.shrink_to_fit();
}

std::optional<std::uint64_t> segment_layout::find(std::uint64_t offset, std::uint64_t bytes) const {
  const auto behind = std::ranges::upper_bound(runs_, offset, {}, &run::offset);
  if (behind == runs_.begin()) return std::nullopt;
  const run& at = *(behind - 1);
  const std::uint64_t within = offset - at.offset;
  if (within > at.bytes || bytes > at.bytes - within) return std::nullopt;
  return at.position + within;
}

} // namespace weir::dataplane
