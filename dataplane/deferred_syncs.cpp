#include "dataplane/deferred_syncs.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace weir::dataplane {

namespace {

/// Before Linux 5.8 a failed write of a file was not among the errors of syncfs.
bool reports_failed_writes() {
  utsname about{};
  if (::uname(&about) < 0) return false;
  const std::string_view release = about.release;
  unsigned major = 0;
  unsigned minor = 0;
  const char* const end = release.data() + release.size();
  const auto [dot, failed] = std::from_chars(release.data(), end, major);
  if (failed != std::errc() || dot == end || *dot != '.') return false;
  if (std::from_chars(dot + 1, end, minor).ec != std::errc()) return false;
  return std::pair(major, minor) >= std::pair(5U, 8U);
}

/// The figure in a line "Dirty:   123 kB", in bytes.
std::optional<std::uint64_t> figure_of(std::string_view text, std::string_view name) {
  const auto line = text.find(name);
  if (line == std::string_view::npos) return std::nullopt;
  const auto digit = text.find_first_not_of(' ', line + name.size());
  if (digit == std::string_view::npos) return std::nullopt;
  std::uint64_t kibibytes = 0;
  const auto read = std::from_chars(text.data() + digit, text.data() + text.size(), kibibytes);
  if (read.ec != std::errc()) return std::nullopt;
  return kibibytes << 10;
}

/// What waits to be written to any disk of this machine; nothing if the system does not say.
std::optional<std::uint64_t> dirty_bytes() {
  const auto opened = open_descriptor("/proc/meminfo", O_RDONLY, "open");
  if (!opened) return std::nullopt;
  std::array<char, 4096> buffer{};
  const auto count =
      retried([&] { return ::pread(opened->number(), buffer.data(), buffer.size(), 0); });
  if (count <= 0) return std::nullopt;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(count));
  const auto dirty = figure_of(text, "\nDirty:");
  const auto underway = figure_of(text, "\nWriteback:");
  if (!dirty || !underway) return std::nullopt;
  return *dirty + *underway;
}

std::size_t descriptors_allowed() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

/// Makes a system call for the descriptor of each.
template <class Files, class Call>
result<void> for_each(const Files& files, Call call) {
  for (const auto& [path, opened] : files) {
    const auto one = [call, number = opened.number()] { return call(number); };
    if (auto done = checked(retried(one), path, "sync"); !done) return done;
  }
  return {};
}

int wait_for_bytes(int number) {
  return ::sync_file_range(number, 0, 0,
                           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                               SYNC_FILE_RANGE_WAIT_AFTER);
}

/// False: the system has no such call, or not for us.
result<bool> sync_file_system(int number, const std::string& directory) {
  if (retried([number] { return ::syncfs(number); }) == 0) return true;
  if (errno == ENOSYS || errno == EPERM) return false;
  return system_failure(errno, directory, "sync the file system of");
}

} // namespace

result<bool> deferred_syncs::take(posix_file& written) {
  static const bool reliable = reports_failed_writes();
  if (!reliable || !is_on_known_file_system(written)) return false;
  // Allocates, and begins to write.
  const int begun = ::sync_file_range(written.number(), 0, 0, SYNC_FILE_RANGE_WRITE);
  if (auto done = checked(begun, written.path(), "write out"); !done) return failure(done.error());
  return keep(written);
}

bool deferred_syncs::keep(posix_file& written) {
  const std::lock_guard held(mutex_);
  if (taken_.size() >= std::min(taken_max, descriptors_allowed() / 8)) return false;
  // Nobody would forget one that was removed before it came here.
  struct stat status{};
  if (::fstat(written.number(), &status) < 0 || status.st_nlink == 0) return false;
  taken_.push_back({written.path(), written.release()});
  return true;
}

void deferred_syncs::forget(const std::string& path) {
  const std::lock_guard held(mutex_);
  std::erase_if(taken_, [&](const taken_file& one) { return one.path == path; });
}

std::list<deferred_syncs::taken_file> deferred_syncs::take_below(const std::string& directory) {
  const std::string prefix = join(directory, "");
  std::list<taken_file> below;
  const std::lock_guard held(mutex_);
  for (auto at = taken_.begin(); at != taken_.end();) {
    const auto one = at++;
    if (one->path.starts_with(prefix)) below.splice(below.end(), taken_, one);
  }
  return below;
}

result<bool> deferred_syncs::sync(const std::list<taken_file>& files,
                                  const std::string& directory) {
  if (files.empty()) return false;
  if (const auto dirty = dirty_bytes(); dirty && *dirty < others_bytes_) {
    // First, since what syncfs meets it may keep to itself.
    if (auto written = for_each(files, wait_for_bytes); !written) return failure(written.error());
    const auto together = sync_file_system(files.front().opened.number(), directory);
    if (!together || *together) return together;
  }
  if (auto synced = for_each(files, ::fsync); !synced) return failure(synced.error());
  return false;
}

result<void> deferred_syncs::sync_tree(disk& storage, const std::string& directory) {
  const auto with_names = sync(take_below(directory), directory);
  if (!with_names) return failure(with_names.error());
  if (!*with_names) return storage.disk::sync_tree(directory);
  // Without a journal, ext4's syncfs leaves the last of it in the disk's own cache; this does not.
  return storage.sync_directory(directory);
}

} // namespace weir::dataplane
