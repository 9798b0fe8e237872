#include "dataplane/posix_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <system_error>
#include <utility>

namespace weir::dataplane {

namespace {

/// Bytes per system call: below the 2 GiB that Linux transfers at most.
constexpr std::size_t transfer_bytes_max = std::size_t{1} << 30;

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

/// Whether it is a regular file, and this name the only one.
bool is_named_once(int number) {
  struct stat status{};
  return ::fstat(number, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
}

/// Whether nobody else has the file open or mapped: only then is a lease for writing given. False
/// where the file system gives none.
bool is_open_once(int number) {
  // Who opens the file meanwhile ends the lease by a signal: one that is ignored unless handled.
  if (::fcntl(number, F_SETSIG, SIGURG) < 0) return false;
  if (::fcntl(number, F_SETLEASE, F_WRLCK) < 0) return false;
  return ::fcntl(number, F_SETLEASE, F_UNLCK) == 0;
}

bool is_known(const struct statfs& about) {
  return about.f_type == EXT4_SUPER_MAGIC || about.f_type == XFS_SUPER_MAGIC;
}

constexpr int took_no_bytes = -1;

/// Zero, the number of the error, or `took_no_bytes`.
int write_all(int file, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), transfer_bytes_max);
    const ssize_t done =
        retried([&] { return ::pwrite(file, bytes.data(), count, static_cast<off_t>(offset)); });
    if (done < 0) return errno;
    if (done == 0) return took_no_bytes;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return 0;
}

} // namespace

tl::unexpected<error> system_failure(int number, const std::string& path, std::string_view action) {
  const std::string reason = std::generic_category().message(number);
  return failure(class_of(number), path + ": cannot " + std::string(action) + ": " + reason);
}

result<void> checked(int value, const std::string& path, std::string_view action) {
  if (value < 0) return system_failure(errno, path, action);
  return {};
}

descriptor::~descriptor() {
  if (number_ >= 0) ::close(number_);
}

result<descriptor> open_descriptor(const std::string& path, int flags, std::string_view action) {
  const int number = retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0644); });
  if (number < 0) return system_failure(errno, path, action);
  return descriptor(number);
}

result<void> posix_file::append(std::span<const std::byte> bytes) {
  auto written = write_at(position_, bytes);
  if (written) position_ += bytes.size();
  if (position_ - started_ >= write_behind_bytes) start_writing();
  return written;
}

result<void> posix_file::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  const int number = write_all(opened_.number(), offset, bytes);
  if (number == took_no_bytes)
    return failure(errc::io_failed, path_ + ": cannot write: the system took no bytes");
  if (number != 0) return system_failure(number, path_, "write");
  return {};
}

result<void> posix_file::append_direct(std::span<const std::byte> bytes) {
  if (::fcntl(opened_.number(), F_SETFL, O_DIRECT) < 0)
    return failure(errc::unsupported, path_ + ": takes no direct writes");
  const int number = write_all(opened_.number(), position_, bytes);
  ensure(::fcntl(opened_.number(), F_SETFL, 0) == 0, "a flag of a file can be taken back");
  if (number == 0) {
    position_ += bytes.size();
    started_ = position_; // There is nothing that the disk would have to begin with.
    return {};
  }
  auto failed = system_failure(number == took_no_bytes ? EINVAL : number, path_, "write directly");
  // The last two: memory of another device, which can be copied from and no more.
  if (number == took_no_bytes || number == EINVAL || number == EOPNOTSUPP || number == EFAULT ||
      number == ENOMEM)
    failed.value().code = errc::unsupported;
  return failed;
}

result<void> posix_file::cut(std::uint64_t end) {
  if (std::exchange(former_bytes_, 0) <= end) return {};
  const auto length = static_cast<off_t>(end);
  return checked(retried([&] { return ::ftruncate(opened_.number(), length); }), path_,
                 "cut to its length");
}

result<std::size_t> posix_file::read_at(std::uint64_t offset, std::span<std::byte> target) {
  std::size_t total = 0;
  while (total < target.size()) {
    const std::size_t count = std::min(target.size() - total, transfer_bytes_max);
    const ssize_t done = retried([&] {
      return ::pread(opened_.number(), target.data() + total, count,
                     static_cast<off_t>(offset + total));
    });
    if (done < 0) return system_failure(errno, path_, "read");
    if (done == 0) break;
    total += static_cast<std::size_t>(done);
  }
  return total;
}

result<std::uint64_t> posix_file::size() {
  struct stat status{};
  if (::fstat(opened_.number(), &status) < 0) return system_failure(errno, path_, "tell the size");
  return static_cast<std::uint64_t>(status.st_size);
}

result<void> posix_file::sync() {
  return checked(retried([&] { return ::fsync(opened_.number()); }), path_, "sync");
}

result<void> posix_file::close() {
  ensure(opened_.number() >= 0, "a file is closed once");
  // Never retried: Linux has released the descriptor even when it reports EINTR.
  if (::close(opened_.release()) < 0 && errno != EINTR)
    return system_failure(errno, path_, "close");
  return {};
}

result<std::shared_ptr<const std::byte>> posix_file::map(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, opened_.number(), 0);
  if (memory == MAP_FAILED) return system_failure(errno, path_, "map into memory");
  return std::shared_ptr<const std::byte>(
      static_cast<const std::byte*>(memory),
      [memory, bytes](const std::byte*) { ::munmap(memory, bytes); });
}

/// Has the disk begin with what was appended, so that it works while more is made, and a sync has
/// less left. Says nothing about what is durable: an error comes with the sync.
void posix_file::start_writing() {
  std::ignore = ::sync_file_range(opened_.number(), static_cast<off_t>(started_),
                                  static_cast<off_t>(position_ - started_), SYNC_FILE_RANGE_WRITE);
  started_ = position_;
}

bool is_on_known_file_system(const posix_file& opened) {
  struct statfs about{};
  return ::fstatfs(opened.number(), &about) == 0 && is_known(about);
}

bool is_on_known_file_system(const std::string& path) {
  struct statfs about{};
  return ::statfs(path.c_str(), &about) == 0 && is_known(about);
}

result<std::unique_ptr<posix_file>> create_posix_file(const std::string& path) {
  auto opened = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, "create");
  if (!opened) return failure(std::move(opened.error()));
  return std::make_unique<posix_file>(std::move(*opened), path, 0);
}

result<std::unique_ptr<posix_file>> open_or_create_posix_file(const std::string& path) {
  auto opened = open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW, "open");
  if (!opened) return failure(std::move(opened.error()));
  struct stat status{};
  if (::fstat(opened->number(), &status) < 0) return system_failure(errno, path, "tell the size");
  return std::make_unique<posix_file>(std::move(*opened), path,
                                      static_cast<std::uint64_t>(status.st_size));
}

result<std::unique_ptr<posix_file>> reuse_posix_file(const std::string& spare,
                                                     const std::string& path) {
  auto opened = open_descriptor(spare, O_RDWR | O_NOFOLLOW | O_NONBLOCK, "open");
  if (!opened) return create_posix_file(path);
  auto reused = std::make_unique<posix_file>(std::move(*opened), path, 0);
  const int number = reused->number();
  if (!is_on_known_file_system(*reused) || !is_named_once(number) || !is_open_once(number) ||
      ::fcntl(number, F_SETFL, 0) < 0)
    return create_posix_file(path);
  if (::renameat2(AT_FDCWD, spare.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) < 0)
    return create_posix_file(path); // It says what is in the way.
  const auto bytes = reused->size();
  if (!bytes) return failure(bytes.error());
  reused->former_bytes_ = *bytes;
  return reused;
}

result<std::unique_ptr<posix_file>> open_posix_file(const std::string& path) {
  // Without O_NONBLOCK a named pipe that somebody left there would block for ever.
  auto opened = open_descriptor(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, "open");
  if (!opened) return failure(std::move(opened.error()));
  struct stat status{};
  if (::fstat(opened->number(), &status) < 0) return system_failure(errno, path, "tell the kind");
  if (!S_ISREG(status.st_mode))
    return failure(errc::io_failed, path + ": cannot open: not a regular file");
  return std::make_unique<posix_file>(std::move(*opened), path, 0);
}

} // namespace weir::dataplane
