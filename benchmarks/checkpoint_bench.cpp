/// What a checkpoint costs the run: how long a barrier holds, what a bundle costs to publish, and
/// what is left of generation meanwhile.
///
/// Bounds: a barrier is two messages to each of three origins and one to each of four owners, one
/// round after the other, and the longest transaction that is under way; a capture copies a few
/// words. A bundle costs its bytes, one sync per file and five of directories.
///
/// While holds are measured, both cores decode at nice 10, as they do in a run. A hold is what the
/// checkpoint actor reports: from the first Quiesce to the last Resumed.
#include "actors/runtime/blocking_pool.hpp"
#include "benchmarks/checkpoint_graph.hpp"
#include "benchmarks/checkpoint_job_bench.hpp"
#include "benchmarks/report.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/posix_disk.hpp"
#include "kernels/decoder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string_view>

namespace weir::benchmarks {

namespace {

namespace fs = std::filesystem;

double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

/// Decodes on every core, with the main job's model, until it ends.
class decoding_load {
public:
  explicit decoding_load(std::size_t threads)
      : pool_(make_blocking_pool({.threads = threads, .queue_limit = 64, .nice = 10})) {
    for (std::size_t i = 0; i < threads; ++i)
      ensure(pool_->submit([this] { decode(); }), "the pool takes a job per thread");
  }
  ~decoding_load() { stop_ = true; }

  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  void wait_for_tokens(std::uint64_t count) const {
    const std::uint64_t end = tokens_ + count;
    for (std::uint64_t seen = tokens_; seen < end; seen = tokens_)
      tokens_.wait(seen);
  }

private:
  static constexpr std::uint32_t batch = 32;

  void decode() {
    const kernels::model_config config;
    kernels::decoder_options options;
    options.max_sequences = batch;
    auto made = kernels::decoder::create(config, options);
    ensure(made.has_value(), "the main job's model is valid");
    auto weights = std::make_shared<kernels::float_buffer>(kernels::initial_weights(config, 1));
    const auto set = (*made)->set_weights(
        {std::shared_ptr<const float>(weights, weights->data()), weights->size(), 1});
    ensure(set.has_value(), "the weights are the model's");
    const std::uint32_t prompt[] = {257, 49, 43, 50, 61, 10};
    for (std::uint64_t tag = 1; !stop_;) {
      kernels::decode_request request;
      request.tag = tag;
      request.prompt = prompt;
      request.key = {1, 0, tag, 0};
      request.max_new_tokens = 32;
      if ((*made)->live_sequences() < batch && (*made)->admit(request)) ++tag;
      const auto emitted = (*made)->step();
      ensure(emitted.has_value(), "a decoder goes on");
      tokens_ += emitted->size();
      tokens_.notify_all();
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> tokens_ = 0;
  std::unique_ptr<blocking_pool> pool_;
};

row against(std::string text, double target_us, const std::vector<std::vector<double>>& turns,
            double part) {
  row made;
  made.what = {std::move(text), "us", "target", 1.0, better::lower};
  std::vector<double> all, ratios;
  for (const std::vector<double>& turn : turns) {
    all.insert(all.end(), turn.begin(), turn.end());
    ratios.push_back(quantile(turn, part) / target_us);
  }
  made.ours = quantile(all, part);
  made.baseline = target_us;
  made.ratio_median = made.ours / target_us; // Over all turns: one turn is too short for a p99.
  made.ratio_min = *std::ranges::min_element(ratios);
  made.ratio_max = *std::ranges::max_element(ratios);
  made.holds = made.ratio_median <= 1.0;
  return made;
}

/// Prints what a figure of the table does not tell: how holds are spread.
void print_holds(const std::string& text, std::vector<double> holds_us) {
  std::ranges::sort(holds_us);
  std::printf("%s, us: p50 %.1f, p99 %.1f, max %.1f of %zu\n", text.c_str(),
              quantile(holds_us, 0.5), quantile(holds_us, 0.99), holds_us.back(), holds_us.size());
  double below = 8.0;
  for (std::size_t at = 0; at < holds_us.size(); below *= 2.0) {
    std::size_t count = 0;
    for (; at < holds_us.size() && holds_us[at] < below; ++at)
      ++count;
    if (count > 0) std::printf("  < %6.0f us %6zu\n", below, count);
  }
}

/// Holds of whole checkpoints, and decoding with and without them.
void live_rows(const std::string& directory, std::vector<row>& rows) {
  checkpoint_graph graph({}, directory + "/live");
  const decoding_load load(2);
  constexpr std::size_t warm_up = 3, turns = 8, each = 30;
  std::vector<std::vector<double>> holds(turns);
  for (std::size_t i = 0; i < warm_up; ++i)
    std::ignore = graph.publish();
  for (std::vector<double>& turn : holds)
    for (std::size_t i = 0; i < each; ++i)
      turn.push_back(static_cast<double>(graph.publish().hold_ns) * 1e-3);
  rows.push_back(against("barrier hold p50, 10,000 live groups, cores decoding", 100, holds, 0.5));
  rows.push_back(
      against("barrier hold p99, 10,000 live groups, cores decoding", 1000, holds, 0.99));
  std::vector<double> all;
  for (const std::vector<double>& turn : holds)
    all.insert(all.end(), turn.begin(), turn.end());
  print_holds("holds of whole checkpoints", std::move(all));

  std::uint64_t tokens = 0; // The quiet half of a turn decodes as many as the writing one did.
  const auto writing = [&] {
    const std::uint64_t before = load.tokens();
    const double seconds = seconds_of([&] {
      for (int i = 0; i < 8; ++i)
        std::ignore = graph.publish();
    });
    tokens = load.tokens() - before;
    return static_cast<double>(tokens) / seconds;
  };
  const auto quiet = [&] {
    return static_cast<double>(tokens) / seconds_of([&] { load.wait_for_tokens(tokens); });
  };
  rows.push_back(compare({"decoding while bundles are written back to back", "tokens/s",
                          "decoding without", 0.9, better::higher},
                         writing, quiet));
}

/// Barriers over large payloads against those over a small one, turn by turn. One thread runs the
/// actors of a graph: with two, a graph of any size keeps for seconds to one of two speeds, a
/// factor of two apart, and two graphs not to the same one.
void payload_rows(const std::string& directory, std::vector<row>& rows) {
  const auto median_hold = [](checkpoint_graph& graph, std::vector<double>& all) {
    std::vector<double> holds;
    for (int i = 0; i < 100; ++i)
      holds.push_back(graph.hold_ns() * 1e-3);
    all.insert(all.end(), holds.begin(), holds.end());
    return quantile(std::move(holds), 0.5);
  };
  std::vector<double> small_holds, middle_holds, large_holds;
  checkpoint_graph small({.payload_bytes = 4ULL << 20, .workers = 1}, directory + "/small");
  const decoding_load load(2);
  const auto hold_small = [&] { return median_hold(small, small_holds); };
  {
    checkpoint_graph middle({.payload_bytes = 256ULL << 20, .workers = 1}, directory + "/middle");
    rows.push_back(compare(
        {"barrier hold, 256 MiB in 10^4 rows, cores decoding", "us", "4 MiB in 10^4 rows", 1.2,
         better::lower},
        [&] { return median_hold(middle, middle_holds); }, hold_small));
  }
  checkpoint_graph large({.siblings = 200, .payload_bytes = 4ULL << 30, .workers = 1},
                         directory + "/large");
  rows.push_back(compare(
      {"barrier hold, 4 GiB in 10^6 rows, cores decoding", "us", "4 MiB in 10^4 rows", 1.2,
       better::lower},
      [&] { return median_hold(large, large_holds); }, hold_small, 15));
  const double slope =
      (rows.back().ours - rows.back().baseline) / (large.payload_mib() - small.payload_mib());
  print_holds("holds over 4 MiB", std::move(small_holds));
  print_holds("holds over 256 MiB", std::move(middle_holds));
  print_holds("holds over 4 GiB", std::move(large_holds));
  std::printf("slope: %.6f us per MiB\n", slope);
}

// Publishing against the bare calls.

constexpr std::size_t files = 12;
constexpr std::size_t file_bytes = 1 << 20;

class published_bundles {
public:
  explicit published_bundles(std::string directory)
      : directory_(std::move(directory)), content_(file_bytes),
        storage_(dataplane::make_posix_disk()) {
    fs::create_directories(directory_);
    for (std::size_t i = 0; i < content_.size(); ++i)
      content_[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
  }

  double ours_ms() {
    const double seconds = seconds_of([&] { write_bundle(); });
    const dataplane::bundle_name name{++step_, 0};
    ensure(dataplane::retire_bundles(*storage_, directory_, std::span(&name, 1)).has_value(),
           "a bundle can be removed");
    return seconds * 1e3;
  }

  double bare_ms() {
    const std::string name = directory_ + "/bare";
    const double seconds = seconds_of([&] { write_bare(name); });
    fs::remove_all(name);
    return seconds * 1e3;
  }

private:
  void write_bundle() {
    const epoch_id epoch{1, 1, step_ + 1};
    auto writer = dataplane::bundle_writer::begin(*storage_, directory_, epoch);
    ensure(writer.has_value(), "the directory is there");
    for (std::size_t i = 0; i < files; ++i) {
      auto written = dataplane::write_section(*storage_, writer->directory(),
                                              "policy/" + std::to_string(i), epoch, content_);
      ensure(written.has_value() && writer->add(std::move(*written)), "a section is written");
    }
    dataplane::publication what;
    what.run_id = "benchmark";
    what.step = step_ + 1;
    what.still_current = [] { return result<void>(); };
    ensure(writer->publish(std::move(what)).has_value(), "the bundle is published");
  }

  /// The same writes, syncs and renames, and nothing else.
  void write_bare(const std::string& name) const {
    const std::string unfinished = directory_ + "/.bare";
    fs::create_directories(unfinished + "/policy");
    for (std::size_t i = 0; i < files; ++i)
      write_file(unfinished + "/policy/" + std::to_string(i), content_);
    sync(unfinished + "/policy");
    write_file(unfinished + "/MANIFEST", std::span(content_).first(1024));
    sync(unfinished);
    fs::rename(unfinished, name);
    sync(directory_);
    fs::create_symlink("bare", directory_ + "/.pointer");
    fs::rename(directory_ + "/.pointer", directory_ + "/bare-latest");
    sync(directory_);
  }

  static void write_file(const std::string& path, std::span<const std::byte> content) {
    const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    const auto size = static_cast<ssize_t>(content.size());
    ensure(file >= 0 && ::write(file, content.data(), content.size()) == size, "a file is written");
    ensure(::fsync(file) == 0 && ::close(file) == 0, "a file is synced");
  }
  static void sync(const std::string& path) {
    const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ensure(directory >= 0 && ::fsync(directory) == 0 && ::close(directory) == 0,
           "a directory is synced");
  }

  std::string directory_;
  std::vector<std::byte> content_;
  std::unique_ptr<dataplane::disk> storage_;
  std::uint64_t step_ = 0;
};

row publish_row(const std::string& directory) {
  published_bundles bundles(directory + "/bundles");
  return compare(
      {"publishing a bundle of 12 MiB in 12 files", "ms", "the same writes and syncs, bare", 1.3,
       better::lower},
      [&] { return bundles.ours_ms(); }, [&] { return bundles.bare_ms(); }, 15);
}

/// `area`: "all", or which of them.
std::vector<row> measure(const std::string& directory, std::string_view area) {
  std::vector<row> rows;
  const auto wanted = [area](std::string_view one) { return area == "all" || area == one; };
  if (wanted("live")) live_rows(directory, rows);
  if (wanted("payload")) payload_rows(directory, rows);
  if (wanted("publish")) rows.push_back(publish_row(directory));
  if (wanted("restore")) rows.push_back(restore_row(directory));
  if (wanted("job")) rows.push_back(every_step_row(directory));
  return rows;
}

} // namespace
} // namespace weir::benchmarks

int main(int count, char** arguments) {
  const std::string path = count > 1 ? arguments[1] : "build/benchmarks/checkpoint.json";
  // Beside the figures, on the disk that runs are on too; a temporary directory may be in memory.
  const std::string directory = path + ".tmp";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const std::string_view area = count > 3 ? arguments[3] : "all";
  const auto rows = weir::benchmarks::measure(directory, area);
  std::filesystem::remove_all(directory);
  return weir::benchmarks::publish(rows, path);
}
