/// Where payload goes: the open segment, and the rules by which the next one is opened.
///
/// Placing is in two steps, so that a verb can be all or nothing. `place` copies payload behind the
/// end of the open segment, or into segments that nobody knows of yet: invisible, and forgotten
/// unless `adopt` follows at once. `adopt` cannot fail.
#pragma once

#include "dataplane/contents.hpp"
#include "dataplane/segment.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weir::dataplane {

/// A row on its way into segments. The cells from `first_cell` on have everything but their place;
/// `sources` has the payload of each of them, borrowed.
struct placing_row {
  row_body body;
  std::size_t first_cell = 0;
  std::vector<const std::byte*> sources;

  [[nodiscard]] std::span<cell> placed_cells() { return std::span(body.cells).subspan(first_cell); }
  [[nodiscard]] std::span<const cell> placed_cells() const {
    return std::span(body.cells).subspan(first_cell);
  }
};

class arena {
public:
  /// `idle_bytes`: memory of dead segments that is kept for new ones, at most.
  arena(std::uint64_t segment_bytes, std::uint64_t idle_bytes) : pool_(segment_bytes, idle_bytes) {}

  /// One segment that a placement writes to.
  struct target {
    std::uint64_t id = 0;
    std::shared_ptr<segment> memory;
    std::uint64_t used = 0;
    std::uint64_t cells = 0;
    std::uint64_t added_bytes = 0;
    std::uint64_t added_cells = 0;
  };
  struct placement {
    std::vector<target> targets;
    /// Of `targets`: the one that stays open. None: npos.
    std::size_t open = npos;
    std::uint64_t next_segment = 0;
    static constexpr std::size_t npos = static_cast<std::size_t>(-1);
  };

  /// Copies the payload of all rows and fills the places of their cells in. Runs of one field stand
  /// together, in the order of the rows, each run 64-byte aligned. `exhausted`: the system has no
  /// memory.
  [[nodiscard]] result<placement> place(const contents& all, std::span<placing_row> rows) const;
  /// Makes a placement part of the contents. @pre nothing else was placed or released since
  void adopt(contents& all, placement plan);

  /// Gives the extents of a row up. A segment without a live cell leaves the contents.
  void release(contents& all, const row_body& body);
  /// Nothing is added to the open segment any more.
  void seal() { open_ = {}; }
  /// The segment that is added to, or 0.
  [[nodiscard]] std::uint64_t open_segment() const { return open_.memory ? open_.id : 0; }
  [[nodiscard]] std::uint64_t idle_bytes() const { return pool_.idle_bytes(); }

private:
  /// Opens a segment that holds at least `needed` bytes.
  [[nodiscard]] result<void> open_target(placement& plan, std::uint64_t needed) const;

  mutable segment_pool pool_;
  target open_;
};

} // namespace weir::dataplane
