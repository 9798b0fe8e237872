#include "dataplane/disk.hpp"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr unsigned tree_depth_max = 32;
constexpr std::size_t probe_bytes = std::size_t{64} << 10;

result<void> remove_entries(disk& storage, const std::string& path, std::uint64_t& entries_left,
                            unsigned depth_left) {
  if (depth_left == 0) return failure(errc::exhausted, path + ": cannot remove: nested too deeply");
  auto entries = storage.list(path);
  if (!entries) return failure(std::move(entries.error()));
  for (const directory_entry& entry : *entries) {
    if (entries_left == 0)
      return failure(errc::exhausted, path + ": cannot remove: too many files");
    --entries_left;
    const std::string inner = join(path, entry.name);
    auto removed = entry.kind == entry_kind::directory
                       ? remove_entries(storage, inner, entries_left, depth_left - 1)
                       : storage.unlink(inner);
    if (!removed) return removed;
  }
  return storage.remove_directory(path);
}

} // namespace

result<std::shared_ptr<const std::byte>> file::map(std::uint64_t) {
  return failure(errc::unsupported, "files of this disk cannot be mapped into memory");
}

result<void> file::close_for_tree() {
  if (auto synced = sync(); !synced) {
    std::ignore = close(); // The descriptor is given back; the sync's error says more.
    return synced;
  }
  return close();
}

result<std::unique_ptr<file>> disk::create_over(const std::string&, const std::string& path) {
  return create(path);
}

bool disk::writes_over(const std::string&) {
  return false;
}

result<void> disk::sync_tree(const std::string& directory) {
  std::vector<std::string> folders{directory};
  for (std::size_t at = 0; at < folders.size(); ++at) {
    const auto entries = list(folders[at]);
    if (!entries) return failure(entries.error());
    for (const directory_entry& entry : *entries)
      if (entry.kind == entry_kind::directory) folders.push_back(join(folders[at], entry.name));
  }
  std::ranges::reverse(folders); // The inner before the outer.
  return sync_directories(folders);
}

result<void> disk::sync_directories(std::span<const std::string> paths) {
  for (const std::string& path : paths)
    if (auto synced = sync_directory(path); !synced) return synced;
  return {};
}

std::string join(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

std::string parent_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/')
    path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

result<void> make_directories(disk& storage, const std::string& path) {
  const auto status = storage.stat(path);
  if (status && status->kind != entry_kind::file) {
    // A life that died between making it and syncing its name would leave everything in it to the
    // next power loss. Where its parent cannot be synced, it is none of ours.
    std::ignore = storage.sync_directory(parent_of(path));
    return {};
  }
  if (status)
    return failure(errc::already_exists, path + ": is a file, and a directory is needed there");
  if (status.error().code != errc::not_found) return failure(status.error());
  const std::string parent = parent_of(path);
  if (parent == path) return failure(status.error());
  if (auto made = make_directories(storage, parent); !made) return made;
  if (auto made = storage.make_directory(path); !made && made.error().code != errc::already_exists)
    return made;
  return storage.sync_directory(parent);
}

result<void> require_writable(disk& storage, const std::string& directory) {
  const auto status = storage.stat(directory);
  if (!status && status.error().code == errc::not_found && parent_of(directory) != directory)
    return require_writable(storage, parent_of(directory));
  if (!status) return failure(status.error());
  if (status->kind != entry_kind::directory && status->kind != entry_kind::symlink)
    return failure(errc::already_exists,
                   directory + ": is a file, and a directory is needed there");
  const std::string path = join(directory, ".tmp-probe"); // A leftover, should we die right here.
  auto opened = storage.open_or_create(path);
  if (!opened) return failure(std::move(opened.error()));
  const std::vector<std::byte> content(probe_bytes);
  auto done = (*opened)->write_at(0, content);
  if (done) done = (*opened)->close();
  const auto removed = storage.unlink(path);
  if (done && !removed && removed.error().code != errc::not_found) return removed;
  return done;
}

result<std::vector<std::byte>> read_file(disk& storage, const std::string& path,
                                         std::uint64_t bytes_max) {
  auto opened = storage.open(path);
  if (!opened) return failure(std::move(opened.error()));
  const auto bytes = (*opened)->size();
  if (!bytes) return failure(bytes.error());
  if (*bytes > bytes_max)
    return failure(errc::exhausted, path + ": has " + std::to_string(*bytes) +
                                        " bytes, more than the " + std::to_string(bytes_max) +
                                        " that are possible here");
  std::vector<std::byte> content;
  try {
    content.resize(*bytes);
  } catch (const std::bad_alloc&) { // A file that claims to be terabytes: sparse, and none of ours.
    return failure(errc::exhausted,
                   path + ": no memory for its " + std::to_string(*bytes) + " bytes");
  }
  const auto read = (*opened)->read_at(0, content);
  if (!read) return failure(read.error());
  content.resize(*read);
  return content;
}

result<void> replace_file(disk& storage, const std::string& path,
                          std::span<const std::byte> content) {
  const std::string temporary = path + ".tmp";
  if (auto removed = storage.unlink(temporary); !removed && removed.error().code != errc::not_found)
    return removed;
  auto opened = storage.create(temporary);
  if (!opened) return failure(std::move(opened.error()));
  auto done = (*opened)->append(content);
  if (done) done = (*opened)->sync();
  if (done) done = (*opened)->close();
  if (done) done = storage.rename(temporary, path);
  if (!done) {
    std::ignore = storage.unlink(temporary); // Best effort: the next call removes it first.
    return done;
  }
  return storage.sync_directory(parent_of(path));
}

result<void> replace_symlink(disk& storage, const std::string& destination,
                             const std::string& path) {
  const std::string temporary = path + ".tmp";
  if (auto removed = storage.unlink(temporary); !removed && removed.error().code != errc::not_found)
    return removed;
  if (auto made = storage.make_symlink(destination, temporary); !made) return made;
  auto renamed = storage.rename(temporary, path);
  if (!renamed) std::ignore = storage.unlink(temporary); // Best effort, as above.
  return renamed;
}

result<void> remove_tree(disk& storage, const std::string& path, std::uint64_t entries_max) {
  const auto status = storage.stat(path);
  if (status && status->kind != entry_kind::directory) // A link would be followed.
    return failure(errc::io_failed, path + ": cannot remove: is no directory");
  auto removed = remove_entries(storage, path, entries_max, tree_depth_max);
  if (!removed && removed.error().code == errc::not_found) return {};
  return removed;
}

} // namespace weir::dataplane
