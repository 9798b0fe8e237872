#include "dataplane/tag_index.hpp"

#include "messages/error.hpp"

#include <cmath>

namespace weir::dataplane {

namespace {

bool listed(const tag_value& value) {
  const auto* real = std::get_if<double>(&value);
  return real == nullptr || !std::isnan(*real);
}

} // namespace

void tag_index::insert(std::uint64_t row, std::span<const row_tag> tags) {
  for (const row_tag& one : tags) {
    if (!listed(one.value)) continue;
    if (names_.size() <= one.name) names_.resize(std::size_t{one.name} + 1);
    names_[one.name][one.value].insert(row);
  }
}

void tag_index::erase(std::uint64_t row, std::span<const row_tag> tags) {
  for (const row_tag& one : tags) {
    if (!listed(one.value)) continue;
    values& sets = names_.at(one.name);
    const auto at = sets.find(one.value);
    ensure(at != sets.end(), "the value of a committed row is listed");
    at->second.erase(row);
    if (at->second.size() == 0) sets.erase(at);
  }
}

std::optional<tag_index::found_sets> tag_index::find(std::uint16_t name, const tag_range& range,
                                                     std::size_t rows_max) const {
  found_sets found;
  const bool empty = name >= names_.size() || range.lowest.index() != range.highest.index() ||
                     !listed(range.lowest) || !listed(range.highest);
  if (empty) return found;
  const values& sets = names_[name];
  std::size_t rows = 0;
  for (auto at = sets.lower_bound(range.lowest); at != sets.end(); ++at) {
    if (at->first.index() != range.lowest.index() || range.highest < at->first) break;
    rows += at->second.size();
    if (rows > rows_max) return std::nullopt;
    found.push_back(&at->second);
  }
  return found;
}

std::size_t tag_index::entries() const {
  std::size_t count = 0;
  for (const values& sets : names_)
    for (const auto& [value, rows] : sets)
      count += rows.size();
  return count;
}

} // namespace weir::dataplane
