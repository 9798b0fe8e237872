#include "dataplane/posix_disk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

namespace weir::dataplane {

namespace {

/// Bytes per system call: below the 2 GiB that Linux transfers at most.
constexpr std::size_t transfer_bytes_max = std::size_t{1} << 30;
/// A lock file that is replaced while it is opened is tried again this often.
constexpr int lock_attempts_max = 16;

errc class_of(int number) {
  switch (number) {
  case ENOSPC:
  case EDQUOT:
    return errc::no_space;
  case ENOENT:
    return errc::not_found;
  case EEXIST:
  case ENOTEMPTY:
    return errc::already_exists;
  default:
    return errc::io_failed;
  }
}

/// "step_1/MANIFEST: cannot sync: Input/output error". Reads errno.
tl::unexpected<error> system_failure(const std::string& path, std::string_view action) {
  const int number = errno;
  const std::string reason = std::generic_category().message(number);
  return failure(class_of(number), path + ": cannot " + std::string(action) + ": " + reason);
}

template <class Call>
auto retried(Call call) {
  auto value = call();
  while (value < 0 && errno == EINTR)
    value = call();
  return value;
}

result<void> checked(int value, const std::string& path, std::string_view action) {
  if (value < 0) return system_failure(path, action);
  return {};
}

/// Appended bytes after which the disk is told to begin with them.
constexpr std::uint64_t write_behind_bytes = std::uint64_t{4} << 20;

/// An open descriptor, closed on destruction.
class descriptor {
public:
  explicit descriptor(int number) : number_(number) {}
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&&) = delete;
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

private:
  int number_;
};

result<descriptor> open_descriptor(const std::string& path, int flags, std::string_view action) {
  const int number = retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0644); });
  if (number < 0) return system_failure(path, action);
  return descriptor(number);
}

class posix_file final : public file {
public:
  posix_file(descriptor opened, std::string path, std::uint64_t position)
      : opened_(std::move(opened)), path_(std::move(path)), position_(position) {}

  result<void> append(std::span<const std::byte> bytes) override {
    auto written = write_at(position_, bytes);
    if (written) position_ += bytes.size();
    if (position_ - started_ >= write_behind_bytes) start_writing();
    return written;
  }

  result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), transfer_bytes_max);
      const ssize_t done = retried([&] {
        return ::pwrite(opened_.number(), bytes.data(), count, static_cast<off_t>(offset));
      });
      if (done < 0) return system_failure(path_, "write");
      if (done == 0)
        return failure(errc::io_failed, path_ + ": cannot write: the system took no bytes");
      bytes = bytes.subspan(static_cast<std::size_t>(done));
      offset += static_cast<std::uint64_t>(done);
    }
    return {};
  }

  result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> target) override {
    std::size_t total = 0;
    while (total < target.size()) {
      const std::size_t count = std::min(target.size() - total, transfer_bytes_max);
      const ssize_t done = retried([&] {
        return ::pread(opened_.number(), target.data() + total, count,
                       static_cast<off_t>(offset + total));
      });
      if (done < 0) return system_failure(path_, "read");
      if (done == 0) break;
      total += static_cast<std::size_t>(done);
    }
    return total;
  }

  result<std::uint64_t> size() override {
    struct stat status{};
    if (::fstat(opened_.number(), &status) < 0) return system_failure(path_, "tell the size");
    return static_cast<std::uint64_t>(status.st_size);
  }

  result<void> sync() override {
    return checked(retried([&] { return ::fsync(opened_.number()); }), path_, "sync");
  }

  result<void> close() override {
    ensure(opened_.number() >= 0, "a file is closed once");
    // Never retried: Linux has released the descriptor even when it reports EINTR.
    if (::close(opened_.release()) < 0 && errno != EINTR) return system_failure(path_, "close");
    return {};
  }

  result<std::shared_ptr<const std::byte>> map(std::uint64_t bytes) override {
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, opened_.number(), 0);
    if (memory == MAP_FAILED) return system_failure(path_, "map into memory");
    return std::shared_ptr<const std::byte>(
        static_cast<const std::byte*>(memory),
        [memory, bytes](const std::byte*) { ::munmap(memory, bytes); });
  }

private:
  /// Has the disk begin with what was appended, so that it works while more is made, and a sync has
  /// less left. Says nothing about what is durable: an error comes with the sync.
  void start_writing() {
    std::ignore =
        ::sync_file_range(opened_.number(), static_cast<off_t>(started_),
                          static_cast<off_t>(position_ - started_), SYNC_FILE_RANGE_WRITE);
    started_ = position_;
  }

  descriptor opened_;
  std::string path_;
  std::uint64_t position_;
  std::uint64_t started_ = position_; ///< Up to here the disk was told to begin.
};

class posix_lock final : public file_lock {
public:
  posix_lock(descriptor opened, std::string path)
      : opened_(std::move(opened)), path_(std::move(path)) {}

  result<void> describe(std::string_view content) override {
    // Written before it is cut to length, so that a reader in between never finds it empty.
    const ssize_t done =
        retried([&] { return ::pwrite(opened_.number(), content.data(), content.size(), 0); });
    if (done != static_cast<ssize_t>(content.size())) return system_failure(path_, "write");
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
    auto opened = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, "create");
    if (!opened) return failure(std::move(opened.error()));
    return std::make_unique<posix_file>(std::move(*opened), path, 0);
  }

  result<std::unique_ptr<file>> open_or_create(const std::string& path) override {
    auto opened = open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW, "open");
    if (!opened) return failure(std::move(opened.error()));
    struct stat status{};
    if (::fstat(opened->number(), &status) < 0) return system_failure(path, "tell the size");
    return std::make_unique<posix_file>(std::move(*opened), path,
                                        static_cast<std::uint64_t>(status.st_size));
  }

  result<std::unique_ptr<file>> open(const std::string& path) override {
    // Without O_NONBLOCK a named pipe that somebody left there would block for ever.
    auto opened = open_descriptor(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, "open");
    if (!opened) return failure(std::move(opened.error()));
    struct stat status{};
    if (::fstat(opened->number(), &status) < 0) return system_failure(path, "tell the kind");
    if (!S_ISREG(status.st_mode))
      return failure(errc::io_failed, path + ": cannot open: not a regular file");
    return std::make_unique<posix_file>(std::move(*opened), path, 0);
  }

  result<void> sync_directory(const std::string& path) override {
    auto opened = open_descriptor(path, O_RDONLY | O_DIRECTORY, "open the directory");
    if (!opened) return failure(std::move(opened.error()));
    return checked(retried([&] { return ::fsync(opened->number()); }), path, "sync the directory");
  }

  result<void> rename(const std::string& source, const std::string& target) override {
    return checked(::rename(source.c_str(), target.c_str()), source, "rename to " + target);
  }

  result<void> rename_exclusive(const std::string& source, const std::string& target) override {
    if (::renameat2(AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0)
      return {};
    if (errno != EINVAL && errno != ENOSYS) return system_failure(source, "rename to " + target);
    // Some network file systems lack the flag. The run lock keeps other writers out meanwhile.
    struct stat taken{};
    if (::lstat(target.c_str(), &taken) == 0)
      return failure(errc::already_exists, source + ": cannot rename to " + target + ": exists");
    return rename(source, target);
  }

  result<void> link(const std::string& source, const std::string& target) override {
    if (::link(source.c_str(), target.c_str()) == 0) return {};
    const int number = errno;
    auto failed = system_failure(source, "link to " + target);
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
    if (length < 0) return system_failure(path, "read the link");
    destination.resize(static_cast<std::size_t>(length));
    return destination;
  }

  result<void> unlink(const std::string& path) override {
    return checked(::unlink(path.c_str()), path, "remove");
  }

  result<void> make_directory(const std::string& path) override {
    return checked(::mkdir(path.c_str(), 0755), path, "make the directory");
  }

  result<void> remove_directory(const std::string& path) override {
    return checked(::rmdir(path.c_str()), path, "remove the directory");
  }

  result<std::vector<directory_entry>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(path.c_str()), &::closedir);
    if (!opened) return system_failure(path, "list");
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
        return system_failure(join(path, name), "tell the kind");
      }
      entries.push_back({std::string(name), kind_of(status.st_mode)});
    }
    if (errno != 0) return system_failure(path, "list");
    std::ranges::sort(entries, {}, &directory_entry::name);
    return entries;
  }

  result<file_status> stat(const std::string& path) override {
    struct stat status{};
    if (::lstat(path.c_str(), &status) < 0) return system_failure(path, "tell the kind");
    return file_status{kind_of(status.st_mode), static_cast<std::uint64_t>(status.st_size),
                       static_cast<std::uint64_t>(status.st_ino)};
  }

  result<std::unique_ptr<file_lock>> lock(const std::string& path) override {
    for (int attempt = 0; attempt < lock_attempts_max; ++attempt) {
      auto opened = open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW, "open the lock");
      if (!opened) return failure(std::move(opened.error()));
      if (retried([&] { return ::flock(opened->number(), LOCK_EX | LOCK_NB); }) < 0) {
        if (errno == EWOULDBLOCK)
          return failure(errc::already_exists, path + ": locked by another process");
        return system_failure(path, "lock");
      }
      if (names_the_same(opened->number(), path))
        return std::make_unique<posix_lock>(std::move(*opened), path);
    }
    return failure(errc::io_failed, path + ": cannot lock: something keeps replacing the file");
  }
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
