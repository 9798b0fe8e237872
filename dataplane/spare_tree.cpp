#include "dataplane/spare_tree.hpp"

#include "dataplane/bundle_name.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace weir::dataplane {

namespace {

constexpr std::string_view spare_prefix = ".spare-";
/// More names than a bundle of ours has.
constexpr std::size_t entries_max = 10'000;

std::string spare_tree_of(const std::string& checkpoint_directory) {
  return join(checkpoint_directory, spare_tree_name);
}

constexpr std::string_view decimal_digits = "0123456789";
constexpr std::string_view digits = "0123456789abcdef";

/// Each number, also a hexadecimal one, a zero.
std::string kind_of(std::string_view name) {
  std::string kind;
  while (!name.empty()) {
    const auto length = std::min(name.find_first_not_of(digits), name.size());
    const auto run = name.substr(0, length);
    if (run.find_first_of(decimal_digits) != std::string_view::npos)
      kind += '0';
    else
      kind += run;
    name.remove_prefix(length);
    const auto rest = std::min(name.find_first_of(digits), name.size());
    kind += name.substr(0, rest);
    name.remove_prefix(rest);
  }
  return kind;
}

/// Makes a file a spare one, or removes it: also the second of a kind.
result<void> spare_file(disk& storage, const std::string& path, std::uint64_t& bytes_left) {
  const auto status = storage.stat(path);
  if (!status) return failure(status.error());
  if (status->kind == entry_kind::file && status->links == 1 && status->bytes <= bytes_left) {
    if (storage.rename_exclusive(path, spare_path(path))) {
      bytes_left -= status->bytes;
      return {};
    }
  }
  return storage.unlink(path);
}

result<void> spare_files(disk& storage, const std::string& tree) {
  std::uint64_t bytes_left = spare_bytes_max;
  std::size_t entries_left = entries_max;
  std::vector<std::string> folders{tree};
  for (std::size_t at = 0; at < folders.size(); ++at) {
    const auto entries = storage.list(folders[at]);
    if (!entries) return failure(entries.error());
    for (const directory_entry& entry : *entries) {
      if (entries_left-- == 0) return failure(errc::exhausted, tree + ": has too many files");
      std::string path = join(folders[at], entry.name);
      if (entry.kind == entry_kind::directory)
        folders.push_back(std::move(path));
      else if (auto done = spare_file(storage, path, bytes_left); !done)
        return done;
    }
  }
  return {};
}

} // namespace

std::string spare_path(std::string_view path) {
  const std::size_t name = path.rfind('/') + 1; // npos + 1 is 0.
  return std::string(path.substr(0, name)) + std::string(spare_prefix) + kind_of(path.substr(name));
}

bool is_spare(std::string_view name) {
  return name.starts_with(spare_prefix);
}

result<void> keep_or_remove_tree(disk& storage, const std::string& checkpoint_directory,
                                 const std::string& retired) {
  const std::string spare = spare_tree_of(checkpoint_directory);
  if (storage.writes_over(checkpoint_directory) && !storage.stat(spare) &&
      spare_files(storage, retired) && storage.rename_exclusive(retired, spare))
    return {};
  return remove_tree(storage, retired);
}

bool take_spare_tree(disk& storage, const std::string& checkpoint_directory,
                     const std::string& directory) {
  const std::string spare = spare_tree_of(checkpoint_directory);
  const auto status = storage.stat(spare); // A link of that name is none of ours.
  return status && status->kind == entry_kind::directory &&
         storage.rename_exclusive(spare, directory).has_value();
}

result<void> remove_spare_tree(disk& storage, const std::string& checkpoint_directory) {
  return remove_tree(storage, spare_tree_of(checkpoint_directory));
}

} // namespace weir::dataplane
