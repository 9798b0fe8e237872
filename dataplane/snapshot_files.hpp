/// Where the values of a snapshot stand in the files of a bundle: what the next bundle needs to
/// link those files instead of writing them again.
///
/// A sealed segment never changes, so that its file stays right; what was cleared since is dead
/// weight in it. A file is linked while it holds every live value of its segment and is not mostly
/// dead. It does not hold a value that was staged and left out when the file was written.
#pragma once

#include "dataplane/manifest.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace weir::dataplane {

/// From places in a segment's memory to places in the streams of its file's columns. Takes 24 bytes
/// for each run of values that stand together in both.
class segment_layout {
public:
  /// Adds a run: `bytes` from `offset` in memory stand at `position` in the stream of their column.
  void add(std::uint64_t offset, std::uint64_t bytes, std::uint64_t position);
  /// @pre every run was added; runs do not overlap
  void finish();
  /// Where a value stands in the stream of its column; nothing if the file does not hold it.
  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t offset, std::uint64_t bytes) const;

private:
  friend class layout_walk;
  struct run {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t position = 0;

    /// @pre the run begins at `of` or before
    [[nodiscard]] std::optional<std::uint64_t> position_of(std::uint64_t of,
                                                           std::uint64_t size) const {
      const std::uint64_t within = of - offset;
      if (within > bytes || size > bytes - within) return std::nullopt;
      return position + within;
    }
  };
  std::vector<run> runs_;
};

/// Finds the values of one row after the other. Those of a field stand in the order in which their
/// rows were put: the next one is in the run of the last, or in one that follows soon.
class layout_walk {
public:
  /// @pre the layout outlives the walk
  explicit layout_walk(const segment_layout& layout) : layout_(&layout) {}
  /// `segment_layout::find`, for a value of the field of that number.
  [[nodiscard]] std::optional<std::uint64_t> find(std::uint16_t field, std::uint64_t offset,
                                                  std::uint64_t bytes);

private:
  const segment_layout* layout_;
  std::vector<std::size_t> last_; ///< The run that was found last, by field.
};

/// A segment's file in a bundle.
struct written_segment {
  manifest_file file;
  /// Of the cut whose bundle it was written for.
  epoch_id epoch;
  /// Bytes of values in it, dead ones too.
  std::uint64_t content_bytes = 0;
  std::shared_ptr<const segment_layout> layout;
};

/// All segments of one bundle, by id. Never changes once it is made.
struct snapshot_files {
  /// Of the bundle.
  epoch_id epoch;
  /// Bundles before this one, back to the last that shares no segment with an older one.
  std::uint64_t links_since_whole = 0;
  std::map<std::uint64_t, written_segment> segments;
};

} // namespace weir::dataplane
