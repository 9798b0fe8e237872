#include "dataplane/schema_editor.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

const std::string& name_in(const std::string& name) {
  return name;
}
const std::string& name_in(const field_info& field) {
  return field.name;
}

/// Position of a name; the size if it is not there.
template <class Item>
std::size_t position_of(const std::vector<Item>& items, const std::string& name, std::size_t hint) {
  if (hint < items.size() && name_in(items[hint]) == name) return hint;
  const auto at = std::find_if(items.begin(), items.end(),
                               [&name](const Item& item) { return name_in(item) == name; });
  return static_cast<std::size_t>(at - items.begin());
}

result<void> check_addition(std::string_view kind, const std::string& name, std::size_t present,
                            std::size_t most, std::string_view where) {
  if (!name_allowed(name))
    return failure(errc::invalid_argument, std::string(where) + ": a " + std::string(kind) +
                                               " needs a name of 1 to " +
                                               std::to_string(name_bytes_max) + " printable bytes");
  if (present >= most)
    return failure(errc::invalid_argument, std::string(where) + ": " + std::string(kind) + " \"" +
                                               name + "\" would be one more than the " +
                                               std::to_string(most) + " of a partition");
  return {};
}

} // namespace

bool name_allowed(std::string_view name) {
  return !name.empty() && name.size() <= name_bytes_max &&
         std::all_of(name.begin(), name.end(),
                     [](char one) { return static_cast<unsigned char>(one) >= 0x20; });
}

partition_schema& schema_editor::edited() {
  if (!own_) {
    own_ = std::make_shared<partition_schema>(*schema_);
    schema_ = own_;
  }
  return *own_;
}

result<std::uint16_t> schema_editor::field(const std::string& name, dtype type, std::size_t hint,
                                           std::string_view where) {
  const std::size_t at = position_of(schema_->fields, name, hint);
  if (at < schema_->fields.size()) {
    const dtype known = schema_->fields[at].type;
    if (known != type)
      return failure(errc::invalid_argument, std::string(where) + ": field \"" + name + "\" is " +
                                                 std::string(to_string(known)) +
                                                 " in this partition, not " +
                                                 std::string(to_string(type)));
    return static_cast<std::uint16_t>(at);
  }
  if (auto allowed = check_addition("field", name, at, fields_max, where); !allowed)
    return failure(std::move(allowed.error()));
  edited().fields.push_back({name, type});
  return static_cast<std::uint16_t>(at);
}

result<std::uint16_t> schema_editor::tag_name(const std::string& name, std::size_t hint,
                                              std::string_view where) {
  const std::size_t at = position_of(schema_->tag_names, name, hint);
  if (at < schema_->tag_names.size()) return static_cast<std::uint16_t>(at);
  if (auto allowed = check_addition("tag", name, at, tag_names_max, where); !allowed)
    return failure(std::move(allowed.error()));
  edited().tag_names.push_back(name);
  return static_cast<std::uint16_t>(at);
}

result<std::uint16_t> schema_editor::consumer(const std::string& name, std::string_view where) {
  const std::size_t at = position_of(schema_->consumers, name, 0);
  if (at < schema_->consumers.size()) return static_cast<std::uint16_t>(at);
  if (auto allowed = check_addition("consumer", name, at, consumers_max, where); !allowed)
    return failure(std::move(allowed.error()));
  edited().consumers.push_back(name);
  return static_cast<std::uint16_t>(at);
}

} // namespace weir::dataplane
