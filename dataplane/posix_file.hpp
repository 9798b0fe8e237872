/// A file of this machine by its descriptor, and the error text of a system call: what the disks of
/// this machine share. Nothing above a disk includes it.
#pragma once

#include "dataplane/disk.hpp"
#include "messages/error.hpp"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace weir::dataplane {

/// "step_1/MANIFEST: cannot sync: Input/output error", of the system's error `number`.
[[nodiscard]] tl::unexpected<error> system_failure(int number, const std::string& path,
                                                   std::string_view action);

/// Makes a system call again while a signal interrupts it.
template <class Call>
auto retried(Call call) {
  auto value = call();
  while (value < 0 && errno == EINTR)
    value = call();
  return value;
}

/// Success, or what errno says if `value` is negative.
[[nodiscard]] result<void> checked(int value, const std::string& path, std::string_view action);

/// Appended bytes after which the disk is told to begin with them.
inline constexpr std::uint64_t write_behind_bytes = std::uint64_t{4} << 20;

/// What a direct write wants offset, size and memory to be multiples of: pages.
inline constexpr std::uint64_t direct_page_bytes = 4096;

/// An open descriptor, closed on destruction.
class descriptor {
public:
  explicit descriptor(int number) : number_(number) {}
  ~descriptor();
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&&) = delete;
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

private:
  int number_;
};

/// `flags` are those of open(2); `action` is said when it fails.
[[nodiscard]] result<descriptor> open_descriptor(const std::string& path, int flags,
                                                 std::string_view action);

class posix_file final : public file {
public:
  posix_file(descriptor opened, std::string path, std::uint64_t position)
      : opened_(std::move(opened)), path_(std::move(path)), position_(position) {}

  result<void> append(std::span<const std::byte> bytes) override;
  result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override;
  result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> target) override;
  result<std::uint64_t> size() override;
  result<void> sync() override;
  result<void> close() override;
  result<std::shared_ptr<const std::byte>> map(std::uint64_t bytes) override;

  /// `append` past the page cache. `unsupported` if the file system refuses, who knows after how
  /// many bytes: nothing counts as appended then. @pre size and file end are on a page
  [[nodiscard]] result<void> append_direct(std::span<const std::byte> bytes);
  /// Ends the file at `end` if bytes of a former one (`reuse_posix_file`) stand behind.
  [[nodiscard]] result<void> cut(std::uint64_t end);
  /// Where the next append goes.
  [[nodiscard]] std::uint64_t position() const { return position_; }

  [[nodiscard]] int number() const { return opened_.number(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Gives the descriptor away, instead of `close`.
  [[nodiscard]] descriptor release() { return std::move(opened_); }

private:
  friend result<std::unique_ptr<posix_file>> reuse_posix_file(const std::string&,
                                                              const std::string&);
  void start_writing();

  descriptor opened_;
  std::string path_;
  std::uint64_t position_;
  std::uint64_t started_ = position_; ///< Up to here the disk was told to begin.
  std::uint64_t former_bytes_ = 0;    ///< Length of the former file, until it is cut.
};

/// Whether it lies on ext4 or XFS, of which is known what O_DIRECT, syncfs and a lease do there: a
/// network file system answers from afar, one in memory has no disk, and one that lies over others
/// does not know who has mapped a file.
[[nodiscard]] bool is_on_known_file_system(const posix_file& opened);
[[nodiscard]] bool is_on_known_file_system(const std::string& path);

/// Four ways to open one, as `disk` says them.
[[nodiscard]] result<std::unique_ptr<posix_file>> create_posix_file(const std::string& path);
[[nodiscard]] result<std::unique_ptr<posix_file>>
open_or_create_posix_file(const std::string& path);
/// `disk::create_over`: what was appended is all of it once `posix_file::cut` was called.
[[nodiscard]] result<std::unique_ptr<posix_file>> reuse_posix_file(const std::string& spare,
                                                                   const std::string& path);
[[nodiscard]] result<std::unique_ptr<posix_file>> open_posix_file(const std::string& path);

} // namespace weir::dataplane
