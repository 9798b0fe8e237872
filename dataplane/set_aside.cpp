#include "dataplane/set_aside.hpp"

namespace weir::dataplane {

namespace {

constexpr int names_max = 10'000;

} // namespace

result<std::string> set_aside(disk& storage, const std::string& checkpoint_directory,
                              std::string_view prefix, bundle_name name) {
  const std::string source = join(checkpoint_directory, to_string(name));
  const std::string first = std::string(prefix) + to_string(name);
  for (int attempt = 1; attempt <= names_max; ++attempt) {
    std::string target = first;
    if (attempt > 1) target.append("-").append(std::to_string(attempt));
    auto renamed = storage.rename_exclusive(source, join(checkpoint_directory, target));
    if (renamed) return target;
    if (renamed.error().code != errc::already_exists) return failure(std::move(renamed.error()));
  }
  return failure(errc::exhausted, source + ": cannot set aside: " + std::to_string(names_max) +
                                      " directories " + first + "-* exist; remove some");
}

} // namespace weir::dataplane
