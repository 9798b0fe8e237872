/// A store as it was at one instant. Made in O(1), never changes, read from any thread while the
/// store goes on; what it needs of the store's memory stays until the last copy of it is gone.
#pragma once

#include "dataplane/contents.hpp"
#include "dataplane/row.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace weir::dataplane {

class snapshot {
public:
  /// An empty store.
  snapshot() = default;
  explicit snapshot(contents captured) : contents_(std::move(captured)) {}

  [[nodiscard]] std::uint64_t sequence() const { return contents_.sequence; }
  [[nodiscard]] std::uint64_t rows() const {
    return contents_.staged_rows + contents_.committed_rows;
  }
  [[nodiscard]] std::uint64_t live_bytes() const { return contents_.live_bytes; }

  /// All rows, without payload, by partition and in the order of their ids: what a restore compares
  /// with the replay index and the ledger. O(rows).
  [[nodiscard]] std::vector<partition_inventory> inventory() const;

  /// The same without its staged rows: what a bundle holds of rows that no ledger record names.
  /// O(rows), and the memory of what it leaves out stays with the original alone.
  [[nodiscard]] snapshot committed() const;

  /// The maps themselves, for writers.
  [[nodiscard]] const contents& state() const { return contents_; }

private:
  contents contents_;
};

} // namespace weir::dataplane
