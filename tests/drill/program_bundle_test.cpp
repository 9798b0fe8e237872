/// Damaged, newer and foreign bundles: refused with file and reason, or passed over for an older
/// one, said with the distance lost. Where a restore is refused, only INCARNATION has changed.
#include "dataplane/checksum.hpp"
#include "dataplane/manifest.hpp"
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <span>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_under(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

void flip_byte(const fs::path& file) {
  std::string content = content_of(file);
  REQUIRE_FALSE(content.empty());
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 0x10);
  write_file(file, content);
}

/// Everything but the two files that a refused restore may write.
file_tree kept_of(const small_job& job) {
  file_tree tree = tree_of(job.run_directory());
  tree.erase("INCARNATION");
  tree.erase("lock");
  return tree;
}

/// Trains `steps`, so that step_2 and, with four, step_4 are there.
void train(const small_job& job, int steps) {
  REQUIRE(job.run({"--set", "grpo.max_num_steps=" + std::to_string(steps)}).exited_with(0));
}

void check_refused(const small_job& job, const std::vector<std::string>& words,
                   const std::vector<std::string>& further = {}) {
  const file_tree before = kept_of(job);
  const program_end end = job.run(further);
  INFO(end.output);
  CHECK(end.exited_with(1));
  for (const std::string& word : words) {
    INFO("missing: " << word);
    CHECK(end.says(word));
  }
  CHECK(kept_of(job) == before);
}

} // namespace

TEST_SUITE("drill/bundle") {
  TEST_CASE("a flipped byte in any file of the only bundle is refused, naming the file") {
    const small_job job;
    train(job, 2);
    const auto files = files_under(job.bundle("step_2"));
    REQUIRE(files.size() >= 8);
    for (const fs::path& file : files) {
      CAPTURE(file.string());
      const std::string whole = content_of(file);
      flip_byte(file);
      check_refused(job, {"step_2", fs::relative(file, job.bundle("step_2")).string()});
      const program_end verified = run_program({"verify", job.bundle("step_2").string()});
      CHECK(verified.exited_with(1));
      CHECK(verified.says(file.filename().string()));
      write_file(file, whole);
    }
    CHECK(run_program({"verify", job.bundle("step_2").string()}).exited_with(0));
    CHECK(job.run().exited_with(0));
  }

  TEST_CASE("a flipped byte in any file of the newest bundle falls back to the one before") {
    const small_job job;
    train(job, 4);
    const auto whole = tree_of(job.run_directory());
    const auto files = files_under(job.bundle("step_4"));
    REQUIRE(files.size() >= 8);
    for (const fs::path& file : files) {
      CAPTURE(file.string());
      const small_job copy;
      fs::remove_all(copy.run_directory());
      fs::copy(job.run_directory(), copy.run_directory(),
               fs::copy_options::recursive | fs::copy_options::copy_symlinks);
      const std::string name = fs::relative(file, job.bundle("step_4")).string();
      flip_byte(copy.bundle("step_4") / name);
      const program_end resumed = copy.run();
      INFO(resumed.output);
      CHECK(resumed.exited_with(0));
      CHECK(resumed.says("step_4 cannot be restored"));
      CHECK(resumed.says(name));
      CHECK(resumed.says("2 steps"));
      CHECK(resumed.says("restored step_2"));
      CHECK(has_entry(copy.checkpoints(), ".abandoned-step_4"));
      const program_end audited = copy.audit();
      INFO(audited.output);
      CHECK(audited.exited_with(0));
    }
    CHECK(tree_of(job.run_directory()) == whole);
  }

  TEST_CASE("a truncated, an emptied and a missing file of the only bundle are refused") {
    const small_job job;
    train(job, 2);
    for (const fs::path& file : files_under(job.bundle("step_2"))) {
      CAPTURE(file.string());
      const std::string whole = content_of(file);
      const std::string name = fs::relative(file, job.bundle("step_2")).string();
      write_file(file, whole.substr(0, whole.size() - 1));
      check_refused(job, {"step_2", name});
      write_file(file, "");
      check_refused(job, {"step_2", name});
      fs::remove(file);
      check_refused(job, {"step_2", name});
      write_file(file, whole);
    }
    CHECK(job.run().exited_with(0));
  }

  TEST_CASE("a bundle of a newer format is refused, naming both versions") {
    const small_job job;
    train(job, 2);
    const fs::path file = job.bundle("step_2") / "MANIFEST";
    std::string content = content_of(file);
    const std::string whole = content;
    // The version stands behind the magic; the file ends with the checksum of what is before it.
    constexpr std::size_t place = 8;
    REQUIRE(static_cast<std::uint8_t>(content[place]) == dataplane::manifest_version);
    ++content[place];
    const auto body = std::as_bytes(std::span(content)).first(content.size() - 16);
    const auto sum = dataplane::checksum_of(body);
    for (std::size_t i = 0; i < 8; ++i) {
      content[body.size() + i] = static_cast<char>(sum.low >> (8 * i));
      content[body.size() + 8 + i] = static_cast<char>(sum.high >> (8 * i));
    }
    write_file(file, content);
    check_refused(job, {"step_2", "MANIFEST", "format 2", "reads format 1"});
    write_file(file, whole);
    CHECK(job.run().exited_with(0));
  }

  TEST_CASE("another dataset under the same run is refused, and the same one goes on") {
    const small_job job;
    train(job, 2);
    const std::string own = problem_lines(40);
    std::string changed = own;
    changed.replace(changed.find("0 + 7"), 5, "0 + 9");
    job.write_data(changed);
    check_refused(job, {"problems.jsonl", "dataset"});
    job.write_data(problem_lines(39));
    check_refused(job, {"problems.jsonl", "dataset"});
    const auto second = own.find('\n') + 1;
    job.write_data(own.substr(second) + own.substr(0, second));
    check_refused(job, {"problems.jsonl", "dataset"});
    job.write_data(own);
    CHECK(job.run().exited_with(0));
  }

  TEST_CASE("what a resume cannot change is refused, with both values and what to do") {
    const small_job job;
    train(job, 2);
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, std::string>>{{"grpo.num_prompts_per_step", "8"},
                                                          {"grpo.num_generations_per_prompt", "4"},
                                                          {"grpo.seed", "2"},
                                                          {"policy.architecture.hidden", "64"},
                                                          {"policy.architecture.layers", "2"}}) {
      CAPTURE(key);
      check_refused(job, {key, value, "refused", "fresh"}, {"--set", key + "=" + value});
    }
    CHECK(job.run().exited_with(0));
  }

  TEST_CASE("directories that only look like bundles are passed over") {
    const small_job job;
    train(job, 2);
    for (const char* const name : {"7", "007", "step_007", "step_9.tmp", "step_", ".tmp-9-1.1"})
      fs::create_directories(job.bundle(name) / "policy");
    fs::create_directories(job.bundle("step_99"));
    fs::remove(job.bundle("latest"));
    fs::create_symlink("step_98", job.bundle("latest"));
    const program_end resumed = job.run();
    INFO(resumed.output);
    CHECK(resumed.exited_with(0));
    CHECK(resumed.says("step_99 cannot be restored"));
    CHECK(resumed.says("restored step_2"));
    CHECK_FALSE(has_entry(job.checkpoints(), ".tmp-"));
    CHECK(fs::read_symlink(job.bundle("latest")) == "step_6");
  }
}

} // namespace weir::test
