#include "dataplane/posix_disk.hpp"

#include "dataplane/direct_file.hpp"
#include "dataplane/posix_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace weir::dataplane {

namespace {

/// A lock file that is replaced while it is opened is tried again this often.
constexpr int lock_attempts_max = 16;

class posix_lock final : public file_lock {
public:
  posix_lock(descriptor opened, std::string path)
      : opened_(std::move(opened)), path_(std::move(path)) {}

  result<void> describe(std::string_view content) override {
    // Written before it is cut to length, so that a reader in between never finds it empty.
    const ssize_t done =
        retried([&] { return ::pwrite(opened_.number(), content.data(), content.size(), 0); });
    if (done != static_cast<ssize_t>(content.size())) return system_failure(errno, path_, "write");
    const auto length = static_cast<off_t>(content.size());
    return checked(retried([&] { return ::ftruncate(opened_.number(), length); }), path_,
                   "cut to its length");
  }

private:
  descriptor opened_;
  std::string path_;
};

entry_kind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return entry_kind::file;
  if (S_ISDIR(mode)) return entry_kind::directory;
  return S_ISLNK(mode) ? entry_kind::symlink : entry_kind::other;
}

/// Whether the descriptor is still the file that the path names: a lock on an unlinked file is a
/// lock on nothing.
bool names_the_same(int number, const std::string& path) {
  struct stat opened{};
  struct stat named{};
  return ::fstat(number, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

class posix_disk final : public disk {
public:
  result<std::unique_ptr<file>> create(const std::string& path) override {
    return write_directly(create_posix_file(path), blocks_, syncs_);
  }

  result<std::unique_ptr<file>> create_over(const std::string& spare,
                                            const std::string& path) override {
    return write_directly(reuse_posix_file(spare, path), blocks_, syncs_);
  }

  bool writes_over(const std::string& directory) override {
    return is_on_known_file_system(directory);
  }

  result<std::unique_ptr<file>> open_or_create(const std::string& path) override {
    return open_or_create_posix_file(path);
  }

  result<std::unique_ptr<file>> open(const std::string& path) override {
    return open_posix_file(path);
  }

  result<void> sync_directory(const std::string& path) override {
    auto opened = open_descriptor(path, O_RDONLY | O_DIRECTORY, "open the directory");
    if (!opened) return failure(std::move(opened.error()));
    return checked(retried([&] { return ::fsync(opened->number()); }), path, "sync the directory");
  }

  result<void> sync_tree(const std::string& directory) override {
    return syncs_->sync_tree(*this, directory);
  }

  result<void> rename(const std::string& source, const std::string& target) override {
    return checked(::rename(source.c_str(), target.c_str()), source, "rename to " + target);
  }

  result<void> rename_exclusive(const std::string& source, const std::string& target) override {
    if (::renameat2(AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0)
      return {};
    if (errno != EINVAL && errno != ENOSYS)
      return system_failure(errno, source, "rename to " + target);
    // Some network file systems lack the flag. The run lock keeps other writers out meanwhile.
    struct stat taken{};
    if (::lstat(target.c_str(), &taken) == 0)
      return failure(errc::already_exists, source + ": cannot rename to " + target + ": exists");
    return rename(source, target);
  }

  result<void> link(const std::string& source, const std::string& target) override {
    if (::link(source.c_str(), target.c_str()) == 0) return {};
    const int number = errno;
    auto failed = system_failure(number, source, "link to " + target);
    if (number == EXDEV || number == EMLINK || number == EPERM || number == EOPNOTSUPP)
      failed.value().code = errc::unsupported;
    return failed;
  }

  result<void> make_symlink(const std::string& destination, const std::string& path) override {
    return checked(::symlink(destination.c_str(), path.c_str()), path, "make the link");
  }

  result<std::string> read_symlink(const std::string& path) override {
    std::string destination(4096, '\0');
    const ssize_t length = ::readlink(path.c_str(), destination.data(), destination.size());
    if (length < 0) return system_failure(errno, path, "read the link");
    destination.resize(static_cast<std::size_t>(length));
    return destination;
  }

  result<void> unlink(const std::string& path) override {
    auto removed = checked(::unlink(path.c_str()), path, "remove");
    syncs_->forget(path);
    return removed;
  }

  result<void> make_directory(const std::string& path) override {
    return checked(::mkdir(path.c_str(), 0755), path, "make the directory");
  }

  result<void> remove_directory(const std::string& path) override {
    return checked(::rmdir(path.c_str()), path, "remove the directory");
  }

  result<std::vector<directory_entry>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(path.c_str()), &::closedir);
    if (!opened) return system_failure(errno, path, "list");
    std::vector<directory_entry> entries;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(opened.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat status{};
      if (::fstatat(::dirfd(opened.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT) // Removed meanwhile by the one who may.
          continue;
        return system_failure(errno, join(path, name), "tell the kind");
      }
      entries.push_back({std::string(name), kind_of(status.st_mode)});
    }
    if (errno != 0) return system_failure(errno, path, "list");
    std::ranges::sort(entries, {}, &directory_entry::name);
    return entries;
  }

  result<file_status> stat(const std::string& path) override {
    struct stat status{};
    if (::lstat(path.c_str(), &status) < 0) return system_failure(errno, path, "tell the kind");
    return file_status{kind_of(status.st_mode), static_cast<std::uint64_t>(status.st_size),
                       static_cast<std::uint64_t>(status.st_ino),
                       static_cast<std::uint64_t>(status.st_nlink)};
  }

  result<std::unique_ptr<file_lock>> lock(const std::string& path) override {
    for (int attempt = 0; attempt < lock_attempts_max; ++attempt) {
      auto opened = open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW, "open the lock");
      if (!opened) return failure(std::move(opened.error()));
      if (retried([&] { return ::flock(opened->number(), LOCK_EX | LOCK_NB); }) < 0) {
        if (errno == EWOULDBLOCK)
          return failure(errc::already_exists, path + ": locked by another process");
        return system_failure(errno, path, "lock");
      }
      if (names_the_same(opened->number(), path))
        return std::make_unique<posix_lock>(std::move(*opened), path);
    }
    return failure(errc::io_failed, path + ": cannot lock: something keeps replacing the file");
  }

private:
  std::shared_ptr<direct_blocks> blocks_ = std::make_shared<direct_blocks>();
  std::shared_ptr<deferred_syncs> syncs_ = std::make_shared<deferred_syncs>();
};

} // namespace

std::unique_ptr<disk> make_posix_disk() {
  return std::make_unique<posix_disk>();
}

process_identity this_process() {
  std::string host(256, '\0');
  if (::gethostname(host.data(), host.size() - 1) < 0) host = "unknown";
  host.resize(std::strlen(host.c_str()));
  return {static_cast<std::int64_t>(::getpid()), std::move(host)};
}

} // namespace weir::dataplane
