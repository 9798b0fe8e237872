#include "dataplane/query_waits.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

/// The rows; none, while the partition does not exist.
result<std::vector<row_id>> rows_of(const store& rows, const awaited_query& wanted) {
  auto found = rows.query(wanted.partition, wanted.conditions);
  if (!found && found.error().code == errc::not_found) return std::vector<row_id>();
  return found;
}

std::string conditions_text(const awaited_query& wanted) {
  std::string text;
  for (const tag_range& tag : wanted.conditions.tags)
    text += (text.empty() ? " with tag \"" : ", \"") + tag.name + "\"";
  if (!wanted.conditions.available_to.empty())
    text += " available to \"" + wanted.conditions.available_to + "\"";
  return text;
}

error late(const awaited_query& wanted, std::size_t found) {
  return {errc::timed_out, "partition \"" + wanted.partition + "\": " + std::to_string(found) +
                               " of " + std::to_string(wanted.rows_min) + " rows" +
                               conditions_text(wanted) + " were there by the deadline"};
}

} // namespace

std::uint64_t query_waits::wait(awaited_query wanted) {
  const std::uint64_t ticket = next_ticket_++;
  waiting_.emplace(ticket, std::move(wanted));
  return ticket;
}

std::vector<settled_query> query_waits::settle(const store& rows, std::int64_t now_ns) {
  const std::uint64_t sequence = rows.stat().sequence;
  const bool changed = seen_sequence_ != sequence;
  std::vector<settled_query> settled;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const bool due = now_ns >= at->second.deadline_ns;
    if (!changed && !due && at->first <= seen_ticket_) {
      ++at;
      continue;
    }
    auto found = rows_of(rows, at->second);
    const bool served = !found || found->size() >= at->second.rows_min;
    if (!served && !due) {
      ++at;
      continue;
    }
    if (!served) found = failure(late(at->second, found->size()));
    settled.push_back({at->first, std::move(found)});
    at = waiting_.erase(at);
  }
  seen_sequence_ = sequence;
  seen_ticket_ = next_ticket_ - 1;
  return settled;
}

std::optional<std::int64_t> query_waits::next_deadline() const {
  std::optional<std::int64_t> next;
  for (const auto& [ticket, wanted] : waiting_)
    next = std::min(next.value_or(wanted.deadline_ns), wanted.deadline_ns);
  return next;
}

} // namespace weir::dataplane
