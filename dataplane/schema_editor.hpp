/// The names of a partition while a call may add to them: a copy that is made on the first addition
/// and becomes the partition's only if the whole call succeeds.
#pragma once

#include "dataplane/contents.hpp"
#include "messages/error.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weir::dataplane {

class schema_editor {
public:
  explicit schema_editor(std::shared_ptr<const partition_schema> current)
      : schema_(std::move(current)) {}

  /// Number of a field, added if it is missing. `hint`: where it probably is. `invalid_argument`:
  /// it has another dtype, an impossible name, or there are too many; `where` opens the text.
  [[nodiscard]] result<std::uint16_t> field(const std::string& name, dtype type, std::size_t hint,
                                            std::string_view where);
  /// The same for a tag.
  [[nodiscard]] result<std::uint16_t> tag_name(const std::string& name, std::size_t hint,
                                               std::string_view where);
  [[nodiscard]] result<std::uint16_t> consumer(const std::string& name, std::string_view where);

  [[nodiscard]] const partition_schema& schema() const { return *schema_; }
  [[nodiscard]] std::shared_ptr<const partition_schema> finish() const { return schema_; }

private:
  partition_schema& edited();

  std::shared_ptr<const partition_schema> schema_;
  std::shared_ptr<partition_schema> own_;
};

/// Whether a name is not empty, not too long and has no control characters.
[[nodiscard]] bool name_allowed(std::string_view name);

} // namespace weir::dataplane
