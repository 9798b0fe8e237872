/// The committed rows of a partition by the values of their tags, so that a query looks at the rows
/// that have a value and not at all rows.
///
/// Derived from the rows, as the keys are: a snapshot does not hold it, and a restore builds it
/// again. So a capture stays two roots.
///
/// NaN equals nothing and is not listed. Values of different types are never equal.
#pragma once

#include "dataplane/contents.hpp"
#include "dataplane/persistent_map.hpp"
#include "dataplane/row.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace weir::dataplane {

/// Rows, ascending.
class row_set {
public:
  void insert(std::uint64_t row) { rows_.insert(row, {}); }
  void erase(std::uint64_t row) { rows_.erase(row); }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] bool contains(std::uint64_t row) const { return rows_.contains(row); }

  /// Calls `visit(row)` in order; it stops by returning false.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    rows_.for_each([&visit](std::uint64_t row, const present&) { return visit(row); });
  }

private:
  struct present {};
  persistent_map<present> rows_;
};

class tag_index {
public:
  /// Lists a row that is committed now. @pre it is not listed
  void insert(std::uint64_t row, std::span<const row_tag> tags);
  /// @pre it is listed with these tags
  void erase(std::uint64_t row, std::span<const row_tag> tags);

  /// Rows within one range of one tag, in as few sets as there are values.
  using found_sets = std::vector<const row_set*>;
  /// The sets of a range; nothing if they have more than `rows_max` rows together. The pointers
  /// last until the next change.
  [[nodiscard]] std::optional<found_sets> find(std::uint16_t name, const tag_range& range,
                                               std::size_t rows_max) const;

  /// Rows that are listed at all, each once for each of its tags: for invariant checks.
  [[nodiscard]] std::size_t entries() const;

private:
  /// By name: sets by value. Numbers are ordered, for ranges; an equal text is what one asks for,
  /// but ranges of texts are answered too.
  using values = std::map<tag_value, row_set>;
  std::vector<values> names_;
};

} // namespace weir::dataplane
