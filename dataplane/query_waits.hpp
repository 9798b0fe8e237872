/// Queries that wait for their rows, so that nobody polls: a consumer says what it wants, how many
/// of it and until when, and is answered once the store has them.
///
/// Pure, like the store: no thread and no clock. Its owner calls `settle` after it changed the
/// store, and at `next_deadline`; only what a change may have served is looked at again. An owner
/// that is an actor answers its asker with the outcome; one that has threads wakes them.
#pragma once

#include "dataplane/row.hpp"
#include "dataplane/store.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weir::dataplane {

/// What somebody waits for.
struct awaited_query {
  std::string partition;
  row_query conditions;
  /// Answered with at least so many rows, and at most `conditions.rows_max`.
  std::size_t rows_min = 1;
  /// Of the owner's clock; with fewer rows by then the answer is `timed_out`.
  std::int64_t deadline_ns = 0;
};

struct settled_query {
  std::uint64_t ticket = 0;
  result<std::vector<row_id>> rows;
};

class query_waits {
public:
  /// Waits; `settle` gives the answer, at the first call already if the rows are there.
  [[nodiscard]] std::uint64_t wait(awaited_query wanted);
  /// Nobody wants the answer any more.
  void cancel(std::uint64_t ticket) { waiting_.erase(ticket); }

  /// The answers that are due, in the order of asking. A partition that does not exist yet is one
  /// without rows.
  [[nodiscard]] std::vector<settled_query> settle(const store& rows, std::int64_t now_ns);
  [[nodiscard]] std::optional<std::int64_t> next_deadline() const;
  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

private:
  std::map<std::uint64_t, awaited_query> waiting_;
  std::uint64_t next_ticket_ = 1;
  /// Queries up to this ticket were looked at when the store was at this sequence.
  std::uint64_t seen_ticket_ = 0;
  std::optional<std::uint64_t> seen_sequence_;
};

} // namespace weir::dataplane
