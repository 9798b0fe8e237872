/// A job that takes a second: 40 problems, 4 prompts of 2 completions a step, 6 steps, a bundle
/// every second step. And what a test asks of its directory.
#pragma once

#include "tests/drill/program.hpp"
#include "tests/support/temp_dir.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace weir::test {

/// Generation waits for training: two runs end with the same bits.
inline const std::string synchronous = "async_rl.sampler.max_lookahead_versions=0";

/// What lies under a directory: path to content; folders and links have their own marks.
using file_tree = std::map<std::string, std::string>;
[[nodiscard]] file_tree tree_of(const std::filesystem::path& directory);

class small_job {
public:
  /// `overrides`: "a.b=c", for all of its runs.
  explicit small_job(const std::vector<std::string>& overrides = {});

  /// Changes a key for all further runs: "a.b=c".
  small_job& set(const std::string& override_);
  /// `weir run` with these further words.
  [[nodiscard]] std::vector<std::string>
  command(const std::vector<std::string>& further = {}) const;
  [[nodiscard]] program_end run(const std::vector<std::string>& further = {}) const;
  /// Killed at a failpoint, such as "trainer.learned=kill@3".
  [[nodiscard]] program_end run_failing(const std::string& points) const;
  [[nodiscard]] program_end audit() const;

  void write_data(const std::string& lines) const;
  void write_config(const std::string& text) const;
  [[nodiscard]] const std::filesystem::path& home() const { return dir_.path(); }
  [[nodiscard]] std::filesystem::path run_directory() const { return dir_.path() / "run"; }
  [[nodiscard]] std::filesystem::path checkpoints() const {
    return run_directory() / "checkpoints";
  }
  [[nodiscard]] std::filesystem::path bundle(const std::string& name) const {
    return checkpoints() / name;
  }
  [[nodiscard]] std::string data_path() const { return dir_.file("problems.jsonl"); }
  [[nodiscard]] std::string config_path() const { return dir_.file("job.yaml"); }

private:
  temp_dir dir_;
  std::vector<std::string> settings_;
};

/// Problems "n + n = ?" with their sums, one JSON line each.
[[nodiscard]] std::string problem_lines(std::uint64_t count);
[[nodiscard]] std::string content_of(const std::filesystem::path& file);
void write_file(const std::filesystem::path& file, const std::string& content);
/// Whether the names of a directory contain one that begins like this.
[[nodiscard]] bool has_entry(const std::filesystem::path& directory, const std::string& prefix);

} // namespace weir::test
