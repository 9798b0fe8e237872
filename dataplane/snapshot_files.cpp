#include "dataplane/snapshot_files.hpp"

#include "messages/error.hpp"

#include <algorithm>

namespace weir::dataplane {

namespace {

/// Runs that are looked at before the search begins anew.
constexpr std::size_t steps_max = 16;

} // namespace

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
  return (behind - 1)->position_of(offset, bytes);
}

std::optional<std::uint64_t> layout_walk::find(std::uint16_t field, std::uint64_t offset,
                                               std::uint64_t bytes) {
  if (field >= last_.size()) last_.resize(field + std::size_t{1});
  std::size_t& at = last_[field];
  const auto& runs = layout_->runs_;
  const std::size_t end = std::min(runs.size(), at + steps_max);
  if (at < end && runs[at].offset <= offset) {
    while (at + 1 < end && runs[at + 1].offset <= offset)
      ++at;
    if (at + 1 < end || end == runs.size()) return runs[at].position_of(offset, bytes);
  }
  const auto behind = std::ranges::upper_bound(runs, offset, {}, &segment_layout::run::offset);
  if (behind == runs.begin()) return std::nullopt;
  at = static_cast<std::size_t>(behind - runs.begin()) - 1;
  return runs[at].position_of(offset, bytes);
}

} // namespace weir::dataplane
