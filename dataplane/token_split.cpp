#include "dataplane/token_split.hpp"

#include "messages/error.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <queue>
#include <utility>

namespace weir::dataplane {

namespace {

struct part {
  std::uint64_t weight = 0;
  std::vector<std::size_t> members;
};

/// Parts, the heaviest first.
struct split {
  std::vector<part> parts;
  /// Of the split that was made first among those in it: no two are equal.
  std::size_t ordinal = 0;

  [[nodiscard]] std::uint64_t spread() const { return parts.front().weight - parts.back().weight; }
};

struct smaller_spread {
  bool operator()(const split& left, const split& right) const {
    return std::pair(left.spread(), right.ordinal) < std::pair(right.spread(), left.ordinal);
  }
};

/// By insertion: ranks are few, and equal parts keep their order.
void put_heaviest_first(split& one) {
  const auto heavier = [](const part& a, const part& b) { return a.weight > b.weight; };
  for (auto next = one.parts.begin(); next != one.parts.end(); ++next)
    std::rotate(std::upper_bound(one.parts.begin(), next, *next, heavier), next, std::next(next));
}

split joined(split first, split second) {
  const std::size_t last = first.parts.size() - 1;
  for (std::size_t at = 0; at <= last; ++at) {
    part& into = first.parts[at];
    part& from = second.parts[last - at];
    into.weight += from.weight;
    into.members.insert(into.members.end(), from.members.begin(), from.members.end());
  }
  first.ordinal = std::min(first.ordinal, second.ordinal);
  put_heaviest_first(first);
  return first;
}

} // namespace

std::vector<std::vector<std::size_t>> split_evenly(std::span<const std::uint64_t> weights,
                                                   std::size_t parts) {
  ensure(parts > 0, "work is split among somebody");
  ensure(weights.size() % parts == 0, "every part has equally many");
  std::vector<std::vector<std::size_t>> lists(parts);
  if (weights.empty()) return lists;
  std::vector<std::size_t> sorted(weights.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::ranges::sort(sorted, {}, [&](std::size_t at) { return std::pair(weights[at], at); });

  std::priority_queue<split, std::vector<split>, smaller_spread> splits;
  for (std::size_t first = 0; first < sorted.size(); first += parts) {
    split run{.parts = {}, .ordinal = first / parts};
    for (std::size_t at = first; at < first + parts; ++at)
      run.parts.push_back({weights[sorted[at]], {sorted[at]}});
    put_heaviest_first(run);
    splits.push(std::move(run));
  }
  while (splits.size() > 1) {
    split widest = splits.top();
    splits.pop();
    split second = splits.top();
    splits.pop();
    splits.push(joined(std::move(widest), std::move(second)));
  }
  for (std::size_t at = 0; at < parts; ++at) {
    lists[at] = splits.top().parts[at].members;
    std::sort(lists[at].begin(), lists[at].end());
  }
  return lists;
}

} // namespace weir::dataplane
