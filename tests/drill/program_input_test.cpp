/// Bad input: the error names the place and what to do, and nothing on disk has changed.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <utility>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

/// A run that is refused before anything is written, saying all of `words`.
void check_refused(const small_job& job, int code, const std::vector<std::string>& words) {
  const file_tree before = tree_of(job.home());
  const program_end end = job.run();
  INFO(end.output);
  CHECK(end.exited_with(code));
  for (const std::string& word : words) {
    INFO("missing: " << word);
    CHECK(end.says(word));
  }
  CHECK(tree_of(job.home()) == before);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

} // namespace

TEST_SUITE("drill/input") {
  TEST_CASE("an unknown key is refused with the nearest known one and its line") {
    small_job job;
    job.write_config(replaced(content_of(job.config_path()), "max_num_steps", "max_num_step"));
    check_refused(job, 2, {"job.yaml:4", "max_num_step", "max_num_steps"});
  }
  TEST_CASE("an unknown key of --set is refused with the nearest known one") {
    small_job job;
    job.set("checkpointing.save_perod=3");
    check_refused(job, 2, {"--set", "checkpointing.save_perod", "checkpointing.save_period"});
  }
  TEST_CASE("a value of another type is refused with its line") {
    small_job job;
    job.write_config(
        replaced(content_of(job.config_path()), "max_num_steps: 6", "max_num_steps: many"));
    check_refused(job, 2, {"job.yaml:4", "grpo.max_num_steps", "many", "whole number"});
  }
  TEST_CASE("a contradiction names both keys") {
    small_job job;
    job.set("policy.generation.max_new_tokens=48");
    check_refused(job, 2,
                  {"policy.generation.max_new_tokens", "policy.architecture.context", "48"});
  }
  TEST_CASE("a missing configuration is named") {
    small_job job;
    fs::remove(job.config_path());
    check_refused(job, 2, {"job.yaml"});
  }
  TEST_CASE("a missing dataset is named, with its key") {
    small_job job;
    fs::remove(job.data_path());
    check_refused(job, 1, {"data.train.path", "problems.jsonl"});
  }
  TEST_CASE("a dataset may be a link, and one that leads nowhere is said to be so") {
    small_job job;
    const fs::path target = job.data_path() + ".real";
    fs::rename(job.data_path(), target);
    fs::create_symlink(target, job.data_path());
    CHECK(job.run().exited_with(0));
    fs::remove_all(job.run_directory());
    fs::remove(target);
    check_refused(job, 1, {"data.train.path", "problems.jsonl", "the link leads nowhere"});
  }
  TEST_CASE("a line that is no JSON is named by its number") {
    small_job job;
    job.write_data(problem_lines(2) + "{\"question\": \"1 + 1 = ?\", \n" + problem_lines(1));
    check_refused(job, 1, {"problems.jsonl:3"});
  }
  TEST_CASE("an empty dataset is refused") {
    small_job job;
    job.write_data("");
    check_refused(job, 1, {"problems.jsonl", "the dataset is empty"});
  }
  TEST_CASE("a record without the answer key is named by its line, with the key") {
    small_job job;
    job.write_data(problem_lines(3) + "{\"question\": \"1 + 1 = ?\"}\n");
    check_refused(job, 1, {"problems.jsonl:4", "answer", "output_key"});
  }
  TEST_CASE("a prompt that does not fit into the context is named by its line") {
    small_job job;
    job.write_data(problem_lines(1) + "{\"question\": \"" + std::string(60, '1') +
                   "\", \"answer\": \"1\"}\n");
    check_refused(job, 1, {"problems.jsonl:2", "policy.architecture.context", "48"});
  }
  TEST_CASE("a failpoint that cannot be understood is refused") {
    small_job job;
    const program_end end = job.run_failing("trainer.learned=explode");
    CHECK(end.exited_with(2));
    CHECK(end.says("explode"));
    CHECK_FALSE(fs::exists(job.run_directory()));
  }
  TEST_CASE("a file in the place of the checkpoint directory is named") {
    small_job job;
    fs::create_directories(job.run_directory());
    write_file(job.checkpoints(), "no directory");
    check_refused(job, 1, {job.checkpoints().string(), "a directory"});
  }
  TEST_CASE("a file in the place of the run directory is named") {
    small_job job;
    write_file(job.run_directory(), "no directory");
    check_refused(job, 1, {job.run_directory().string(), "a directory"});
  }
}

TEST_SUITE("drill/permissions") {
  TEST_CASE("a checkpoint directory that may not be written is named, and stays as it is") {
    constexpr uid_t nobody = 65534;
    small_job job;
    fs::permissions(job.home(), fs::perms::owner_all | fs::perms::group_exec |
                                    fs::perms::group_read | fs::perms::others_exec |
                                    fs::perms::others_read);
    fs::create_directories(job.checkpoints());
    const uid_t user = ::getuid() == 0 ? nobody : program::same_user;
    if (user == program::same_user) {
      fs::permissions(job.checkpoints(), fs::perms::owner_read | fs::perms::owner_exec);
      fs::permissions(job.run_directory(), fs::perms::owner_read | fs::perms::owner_exec);
    }
    const file_tree before = tree_of(job.home());
    const program_end end = run_program(job.command(), user);
    INFO(end.output);
    CHECK(end.exited_with(1));
    CHECK(end.says(job.run_directory().string()));
    CHECK(end.says("ermission denied"));
    CHECK(tree_of(job.home()) == before);
    fs::permissions(job.run_directory(), fs::perms::owner_all);
    fs::permissions(job.checkpoints(), fs::perms::owner_all);
  }
  TEST_CASE("a checkpoint directory that alone may not be written is named") {
    constexpr uid_t nobody = 65534;
    if (::getuid() != 0) return;
    small_job job;
    fs::permissions(job.home(), fs::perms::others_exec | fs::perms::others_read,
                    fs::perm_options::add);
    fs::create_directories(job.checkpoints());
    REQUIRE(::chown(job.run_directory().c_str(), nobody, nobody) == 0);
    const program_end end = run_program(job.command(), nobody);
    INFO(end.output);
    CHECK(end.exited_with(1));
    CHECK(end.says(job.checkpoints().string()));
    CHECK(end.says("ermission denied"));
    CHECK(fs::is_empty(job.checkpoints()));
  }
}

} // namespace weir::test
