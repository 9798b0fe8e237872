/// Tags of many rows at once.
#include "dataplane/store.hpp"

#include <algorithm>

namespace weir::dataplane {

namespace {

std::optional<tag_value> value_of(const row_body& body, std::size_t name) {
  for (const row_tag& one : body.tags)
    if (one.name == name) return one.value;
  return std::nullopt;
}

} // namespace

result<std::vector<std::optional<tag_value>>>
store::tag_values(std::string_view partition, row_list rows, std::string_view name) const {
  const auto number = number_of(partition);
  if (!number) return failure(number.error());
  const partition_state& found = partition_at(*number);
  const auto& names = found.schema->tag_names;
  const auto position =
      static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  std::vector<std::optional<tag_value>> values;
  values.reserve(rows.size());
  for (const row_id row : rows) {
    const row_entry* entry = found.rows.find(row.value);
    if (entry == nullptr)
      return failure(errc::not_found, "partition \"" + std::string(partition) + "\", row " +
                                          std::to_string(row.value) + " does not exist");
    values.push_back(value_of(*entry->body, position));
  }
  return values;
}

} // namespace weir::dataplane
