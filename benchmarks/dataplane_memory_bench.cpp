/// What bundles take of memory while they are written and once they are, and what the next one
/// writes.
///
/// Bounds: a writer holds one chunk of 4 MiB and lists of the values of some segments, whatever the
/// payload. The next bundle writes the bytes that changed, and an index. Bundles that were retired
/// leave nothing.
#include "benchmarks/dataplane_bench.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>

namespace weir::benchmarks {

namespace {

using namespace dataplane;
namespace fs = std::filesystem;

constexpr std::size_t row_bytes = 64 * 1024;

/// A field of /proc/self/status in MiB.
double status_mebibytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1)) / 1024.0;
  return 0;
}

/// Rows of one field over the bytes.
std::vector<row_id> put_rows(store& plane, std::span<const std::byte> bytes) {
  std::vector<row_input> rows(bytes.size() / row_bytes);
  for (std::size_t one = 0; one < rows.size(); ++one)
    rows[one].cells.push_back({.field = "values",
                               .type = dtype::f32,
                               .shape = {row_bytes / 4},
                               .bytes = bytes.subspan(one * row_bytes, row_bytes)});
  auto ids = plane.put("rollouts", rows);
  ensure(ids.has_value(), "the rows are put");
  return std::move(*ids);
}

/// Bundles of one store on the disk, each based on the one before, of which the newest two stay.
class bundle_chain {
public:
  explicit bundle_chain(std::string directory)
      : directory_(std::move(directory)), storage_(make_posix_disk()) {}

  written_snapshot write(const snapshot& state) {
    const std::uint64_t number = ++newest_;
    fs::create_directories(path(number));
    auto written = write_increment(*storage_, path(number), {1, 1, number}, state,
                                   {.pace = {}, .base = base_, .full_every = 8});
    ensure(written.has_value(), "a bundle is written");
    ensure(storage_->sync_tree(path(number)).has_value(), "and durable");
    base_ = snapshot_base{path(number), written->files};
    if (number > 2) fs::remove_all(path(number - 2));
    return std::move(*written);
  }

private:
  [[nodiscard]] std::string path(std::uint64_t number) const {
    return directory_ + "/" + std::to_string(number);
  }

  std::string directory_;
  std::unique_ptr<disk> storage_;
  std::uint64_t newest_ = 0;
  std::optional<snapshot_base> base_;
};

/// A batch of 16 MiB among 240 is replaced by another before each bundle.
row changed_bytes_row(const std::string& directory) {
  constexpr std::size_t batch_bytes = 16 * mebi;
  const auto bytes = noise(batch_bytes, 9);
  store plane({.segment_bytes = 16 * mebi});
  std::vector<std::vector<row_id>> batches;
  for (int batch = 0; batch < 15; ++batch)
    batches.push_back(put_rows(plane, bytes));
  bundle_chain bundles(directory + "/changes");
  static_cast<void>(bundles.write(plane.capture()));
  std::size_t oldest = 0;
  row made = compare(
      {"segment bytes of the next bundle / bytes that changed", "MB", "the bytes that changed",
       1.05, better::lower},
      [&] {
        // Whole bundles are of another kind: the one that follows such a one is looked at.
        for (;;) {
          ensure(plane.clear("rollouts", batches[oldest]).has_value(), "a batch is cleared");
          batches[oldest] = put_rows(plane, bytes);
          oldest = (oldest + 1) % batches.size();
          const auto written = bundles.write(plane.capture());
          if (written.linked_bytes > 0) return static_cast<double>(written.written_bytes) / 1e6;
        }
      },
      [] { return static_cast<double>(batch_bytes) / 1e6; });
  return made;
}

/// A row among 64 is replaced before each of 1,000 bundles.
row thousand_saves_row(const std::string& directory) {
  const auto bytes = noise(64 * row_bytes, 10);
  const std::span<const std::byte> one = std::span(bytes).first(row_bytes);
  store plane({.segment_bytes = 1 * mebi});
  std::vector<row_id> ids = put_rows(plane, bytes);
  bundle_chain bundles(directory + "/saves");
  const auto save = [&](std::size_t count) {
    for (std::size_t at = 0; at < count; ++at) {
      row_id& replaced = ids[at % ids.size()];
      ensure(plane.clear("rollouts", std::span(&replaced, 1)).has_value(), "a row is cleared");
      replaced = put_rows(plane, one).front();
      static_cast<void>(bundles.write(plane.capture()));
    }
  };
  save(100);
  row made;
  made.what = {"resident set after 1,000 saves, against that after 100", "MiB", "after 100 saves",
               1.05, better::lower};
  made.baseline = status_mebibytes("VmRSS");
  made.ratio_min = 1.0;
  for (int more = 0; more < 9; ++more) {
    save(100);
    made.ours = status_mebibytes("VmRSS");
    made.ratio_median = made.ours / made.baseline; // Of the last: 1,000 saves.
    made.ratio_min = std::min(made.ratio_min, made.ratio_median);
    made.ratio_max = std::max(made.ratio_max, made.ratio_median);
  }
  made.holds = made.ratio_max <= made.what.target;
  return made;
}

} // namespace

void memory_rows(const std::string& directory, std::vector<row>& rows) {
  constexpr std::size_t piece = 64 * mebi;
  const auto bytes = noise(piece, 8);
  store plane;
  for (int copy = 0; copy < 64; ++copy)
    static_cast<void>(put_rows(plane, bytes));
  const snapshot state = plane.capture();
  ensure(state.live_bytes() == 64 * piece, "the store holds 4 GiB");
  const auto storage = make_posix_disk();
  const std::string path = directory + "/memory";
  row made;
  made.what = {"extra memory while a snapshot of 4 GiB is written", "MiB", "the target", 1.0,
               better::lower};
  made.baseline = 128.0;
  made.ratio_min = 1.0;
  std::vector<double> extra;
  for (int turn = 0; turn < 3; ++turn) {
    fs::remove_all(path);
    fs::create_directories(path);
    std::ofstream("/proc/self/clear_refs") << 5; // The highest is that of now.
    const double before = status_mebibytes("VmRSS");
    ensure(write_snapshot(*storage, path, {1, 1, 1}, state).has_value(), "a snapshot is written");
    ensure(storage->sync_tree(path).has_value(), "and durable");
    extra.push_back(std::max(1.0, status_mebibytes("VmHWM") - before));
    made.ratio_min = std::min(made.ratio_min, extra.back() / made.baseline);
    made.ratio_max = std::max(made.ratio_max, extra.back() / made.baseline);
  }
  fs::remove_all(path);
  std::ranges::sort(extra);
  made.ours = extra[extra.size() / 2];
  made.ratio_median = made.ours / made.baseline;
  made.holds = made.ratio_max <= 1.0;
  rows.push_back(std::move(made));
}

void increment_rows(const std::string& directory, std::vector<row>& rows) {
  rows.push_back(changed_bytes_row(directory));
  rows.push_back(thousand_saves_row(directory));
}

} // namespace weir::benchmarks
