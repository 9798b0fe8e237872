/// Moving cold segments to disk when memory is short.
#include "dataplane/store.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weir::dataplane {

namespace {

struct spill_candidate {
  std::uint64_t touched = 0;
  std::uint64_t id = 0;
  std::uint64_t live_bytes = 0;
  std::shared_ptr<const segment> memory;
};

/// Sealed segments in memory, the coldest first.
std::vector<spill_candidate> coldest_first(const contents& all, std::uint64_t open) {
  std::vector<spill_candidate> cold;
  all.segments.for_each([&](std::uint64_t id, const segment_entry& entry) {
    if (id != open && !entry.memory->on_disk())
      cold.push_back({entry.memory->touched(), id, entry.live_bytes, entry.memory});
  });
  std::sort(cold.begin(), cold.end(), [](const spill_candidate& a, const spill_candidate& b) {
    return std::tie(a.touched, a.id) < std::tie(b.touched, b.id);
  });
  return cold;
}

} // namespace

std::uint64_t store::live_bytes_in_memory() const {
  std::uint64_t bytes = contents_.live_bytes;
  contents_.segments.for_each([&bytes](std::uint64_t, const segment_entry& entry) {
    if (entry.memory->on_disk()) bytes -= entry.live_bytes;
  });
  return bytes;
}

bool store::spill_down_to(std::uint64_t live_bytes) {
  if (!options_.spill) return false;
  std::uint64_t in_memory = live_bytes_in_memory();
  if (in_memory <= live_bytes) return true;
  if (spill_pause_.left > 0) {
    --spill_pause_.left;
    return false;
  }
  for (spill_candidate& one : coldest_first(contents_, arena_.open_segment())) {
    if (in_memory <= live_bytes) return true;
    if (one.memory->filled() > options_.spill->room_bytes()) continue;
    auto moved = options_.spill->spill(*one.memory);
    if (!moved) {
      ++spills_failed_;
      spill_pause_.left = spill_pause_.next;
      spill_pause_.next = std::min(spill_pause_.next * 2, spill_pause_max);
      if (options_.spill_failed) options_.spill_failed(moved.error());
      return false;
    }
    spill_pause_ = {};
    (*moved)->touch(one.touched);
    contents_.segments.mutate(one.id)->memory = std::move(*moved);
    in_memory -= one.live_bytes;
  }
  return in_memory <= live_bytes;
}

} // namespace weir::dataplane
