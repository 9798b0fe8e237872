/// The two disks against each other, on the same snapshots and bundles: io_uring's figures, with
/// posix as the baseline.
///
/// Bounds: both end in the same fsync of the same bytes, so that the device decides about large
/// files. What io_uring can save is what happens beside it: copying into the page cache while the
/// next bytes are hashed or compressed, and waiting for one sync before the next begins.
#include "benchmarks/dataplane_bench.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"
#include "dataplane/uring_disk.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>

namespace weir::benchmarks {

namespace {

using namespace dataplane;
namespace fs = std::filesystem;

constexpr std::size_t row_bytes = 64 * 1024;
const epoch_id epoch{1, 1, 1};

snapshot snapshot_over(std::span<const std::byte> bytes, dtype type, std::size_t segment_bytes) {
  store plane({.segment_bytes = segment_bytes});
  for (std::size_t at = 0; at < bytes.size(); at += row_bytes) {
    const row_input row{.key = {},
                        .tags = {},
                        .cells = {{.field = "values",
                                   .type = type,
                                   .shape = {row_bytes / element_bytes(type)},
                                   .bytes = bytes.subspan(at, row_bytes)}}};
    ensure(plane.put("rollouts", std::span(&row, 1)).has_value(), "the rows are put");
  }
  return plane.capture();
}

/// One disk and a folder of its own.
class disk_under_test {
public:
  disk_under_test(std::unique_ptr<disk> storage, std::string directory)
      : storage_(std::move(storage)), directory_(std::move(directory)) {
    fs::create_directories(directory_);
  }

  double snapshot_ms(const snapshot& state) {
    const std::string target = directory_ + "/snapshot";
    fs::remove_all(target);
    fs::create_directories(target);
    return 1e3 * seconds_of([&] {
             ensure(write_snapshot(*storage_, target, epoch, state).has_value(),
                    "a snapshot is written");
             ensure(storage_->sync_tree(target).has_value(), "and durable");
           });
  }

  double restore_ms() {
    const std::string source = directory_ + "/snapshot";
    for (const auto& entry : fs::recursive_directory_iterator(source)) {
      const int opened = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      ::posix_fadvise(opened, 0, 0, POSIX_FADV_DONTNEED); // The next read is of the disk.
      ::close(opened);
    }
    return 1e3 * seconds_of([&] {
             ensure(read_snapshot(*storage_, source, epoch).has_value(), "a snapshot is read");
           });
  }

  /// `files` sections in four folders, written one after the other, and published.
  double bundle_ms(std::size_t files, std::span<const std::byte> content) {
    const std::string target = directory_ + "/bundles";
    fs::create_directories(target);
    const double seconds = seconds_of([&] { publish_bundle(target, files, content); });
    fs::remove_all(target);
    return seconds * 1e3;
  }

private:
  void publish_bundle(const std::string& target, std::size_t files,
                      std::span<const std::byte> content) {
    auto writer = bundle_writer::begin(*storage_, target, epoch);
    ensure(writer.has_value(), "the folder is there");
    for (std::size_t at = 0; at < files; ++at) {
      const std::string path = "part" + std::to_string(at % 4) + "/" + std::to_string(at);
      auto written = write_section(*storage_, writer->directory(), path, epoch, content);
      ensure(written.has_value() && writer->add(std::move(*written)), "a section is written");
    }
    publication what;
    what.run_id = "benchmark";
    what.still_current = [] { return result<void>(); };
    ensure(writer->publish(std::move(what)).has_value(), "the bundle is published");
  }

  std::unique_ptr<disk> storage_;
  std::string directory_;
};

claim against_posix(std::string text) {
  return {std::move(text), "ms", "posix", 1.0, better::lower};
}

} // namespace

std::vector<row> uring_rows(const std::string& directory) {
  const std::string written = "io_uring: snapshot of 64 MiB written, ";
  auto made = make_uring_disk();
  if (!made) return {skip(against_posix(written + "incompressible"), made.error().text)};
  disk_under_test ours(std::move(*made), directory + "/uring");
  disk_under_test posix(std::move(choose_disk(disk_kind::posix)->storage), directory + "/posix");
  const auto bytes = noise(64 * mebi, 4);
  const auto ids = tokens(16 * mebi, 6);
  const snapshot plain = snapshot_over(bytes, dtype::f32, 64 * mebi);
  const snapshot many = snapshot_over(bytes, dtype::f32, 4 * mebi);
  const snapshot packed = snapshot_over(std::as_bytes(std::span(ids)), dtype::i32, 64 * mebi);
  std::vector<row> rows;
  const auto add_snapshot = [&](const std::string& text, const snapshot& state) {
    rows.push_back(compare(
        against_posix(text), [&] { return ours.snapshot_ms(state); },
        [&] { return posix.snapshot_ms(state); }));
  };
  add_snapshot(written + "tokens", packed);
  add_snapshot(written + "16 segments", many);
  add_snapshot(written + "incompressible", plain);
  rows.push_back(compare(
      against_posix("io_uring: restore of that, from the disk"), [&] { return ours.restore_ms(); },
      [&] { return posix.restore_ms(); }));
  const auto content = std::span(bytes).first(mebi);
  rows.push_back(compare(
      against_posix("io_uring: bundle of 12 MiB in 12 files"),
      [&] { return ours.bundle_ms(12, content); }, [&] { return posix.bundle_ms(12, content); },
      15));
  rows.push_back(compare(
      against_posix("io_uring: bundle of 24 files of 4 KiB"),
      [&] { return ours.bundle_ms(24, content.first(4096)); },
      [&] { return posix.bundle_ms(24, content.first(4096)); }, 15));
  return rows;
}

} // namespace weir::benchmarks
