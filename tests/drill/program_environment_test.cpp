/// The program with a judge of the user's (`env.command`): a real child process in Python or sh
/// that scores, dies, hangs, or writes what is no reply.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace weir::test {

namespace {

bool has_python() {
  static const bool found = std::system("python3 -c pass >/dev/null 2>&1") == 0;
  if (!found) MESSAGE("skipped: there is no python3");
  return found;
}

std::string example_judge() {
  const char* root = std::getenv("WEIR_SOURCE_ROOT");
  REQUIRE(root != nullptr);
  return std::string(root) + "/examples/arithmetic/reward.py";
}

/// Reads a line, finds its id, and answers it; `$n` counts lines.
const std::string prelude = "#!/bin/sh\necho $$ >>\"$0.pids\"\nn=0\nwhile read -r line; do\n"
                            "n=$((n + 1)); id=${line#*:}; id=${id%%,*}\n";
const std::string answers = "echo \"{\\\"id\\\": $id, \\\"reward\\\": 0.$((id % 10))}\"\ndone\n";
/// Only in the first process of a run.
const std::string once = "[ $(wc -l <\"$0.pids\") = 1 ] && [ $n = 20 ] && ";

/// A job whose judge is a shell script; failures are tried again soon.
struct judged_job : small_job {
  explicit judged_job(const std::string& body) {
    script = home() / "judge";
    write_file(script, prelude + body + answers);
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    set("env={kind: command, command: [" + script.string() + "]}");
    set("async_rl.rollout_failure={backoff_base_s: 0.01, max_backoff_s: 0.1}");
    set(synchronous);
  }
  [[nodiscard]] std::string pids() const { return content_of(script.string() + ".pids"); }

  std::filesystem::path script;
};

file_tree policy_of(const small_job& job) {
  return tree_of(job.bundle("step_6") / "policy");
}

void check_audit(const small_job& job) {
  const program_end audited = job.audit();
  INFO(audited.output);
  CHECK(audited.exited_with(0));
}

/// Waits until a process is gone; false after ten seconds.
bool ends(pid_t process) {
  const int watched = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (watched < 0) return true;
  pollfd end{watched, POLLIN, 0};
  const bool gone = ::poll(&end, 1, 10'000) > 0;
  ::close(watched);
  return gone;
}

/// Disturbed once, a run makes up for it: the same groups, the same rewards, the same weights.
void check_made_up_for(const std::string& disturbance, const std::string& said,
                       const std::string& setting) {
  judged_job calm("");
  REQUIRE(calm.run().exited_with(0));
  judged_job disturbed(once + disturbance + "\n");
  const program_end end = disturbed.set(setting).run();
  INFO(end.output);
  CHECK(end.exited_with(0));
  CHECK(end.says(said));
  CHECK(policy_of(disturbed) == policy_of(calm));
  check_audit(disturbed);
}

} // namespace

TEST_SUITE_BEGIN("drill/environment");

TEST_CASE("the example in Python gives the rewards of exact_answer, and so the same weights") {
  if (!has_python()) return;
  small_job built_in({synchronous, "env.exact_answer={number_credit: 0, concise_credit: 0.1, "
                                   "length_credit: 0, closeness_credit: 0, digit_credit: 0.2}"});
  REQUIRE(built_in.run().exited_with(0));
  small_job judged({synchronous, "env.workers=2",
                    "env={kind: command, command: [python3, " + example_judge() + "]}"});
  const program_end end = judged.run();
  INFO(end.output);
  REQUIRE(end.exited_with(0));
  CHECK(policy_of(judged) == policy_of(built_in));
  check_audit(judged);
}

TEST_CASE("a judge that is killed is started again") {
  check_made_up_for("kill -9 $$", "was killed by signal 9", "grpo.seed=1");
}

TEST_CASE("a judge that hangs is killed and started again") {
  check_made_up_for("exec sleep 600", "has answered nothing for 0.5 s",
                    "async_rl.rollout_failure.env_timeout_s=0.5");
}

TEST_CASE("a judge that writes garbage once is started again") {
  check_made_up_for("echo 'Traceback (most recent call last):'", "got: Traceback", "grpo.seed=1");
}

TEST_CASE("a judge that only writes garbage ends the run, which names it and shows the line") {
  judged_job job("echo 'loading...'\n");
  const program_end end = job.run();
  INFO(end.output);
  CHECK(end.exited_with(1));
  CHECK(end.says("env.command (" + job.script.string().substr(0, 20)));
  CHECK(end.says("got: loading..."));
}

TEST_CASE("a judge that is not there is refused before anything is written") {
  small_job job({"env={kind: command, command: [no-such-judge]}"});
  const program_end end = job.run();
  CHECK(end.exited_with(1));
  CHECK(end.says("env.command: no-such-judge: is no program along PATH"));
  job.set("env.command=[/usr]");
  const program_end folder = job.run();
  CHECK(folder.exited_with(1));
  CHECK(folder.says("env.command: /usr: is no file; name a program"));
  CHECK_FALSE(std::filesystem::exists(job.run_directory()));
}

TEST_CASE("a judge dies with the program, however that ends") {
  judged_job job("");
  const program_end killed = job.run_failing("trainer.learned=kill@2");
  REQUIRE(killed.by_signal);
  const pid_t judge = std::stoi(job.pids());
  CHECK(ends(judge));
  CHECK(job.run().exited_with(0));
  check_audit(job);
}

TEST_CASE("an interrupted run waits for no judge") {
  judged_job job("[ $n = 20 ] && echo thinking >&2 && exec sleep 600\n");
  program run(job.command());
  REQUIRE(run.prints("thinking"));
  run.send(SIGTERM);
  const program_end end = run.wait();
  INFO(end.output);
  CHECK_FALSE(end.timed_out);
  CHECK(end.exited_with(75));
}

TEST_SUITE_END();

} // namespace weir::test
