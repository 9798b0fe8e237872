/// An environment that is a real child process: what it answers, how it ends, and what then becomes
/// of those who asked. The programs are a few lines for `sh`.
#include "actors/environment/command_environment.hpp"
#include "actors/graph.hpp"
#include "tests/support/open_descriptors.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// Answers each request with its own id and half a reward.
const std::string answering = "while read -r line; do id=${line#*:}; id=${id%%,*}; "
                              "echo \"{\\\"id\\\": $id, \\\"reward\\\": 0.5}\"; done";

/// What actors logged, and a way to wait for it.
class remembered_log {
public:
  log_hook hook() {
    return [this](log_level, std::string_view actor, std::string_view text) {
      const std::lock_guard guard(mutex_);
      lines_.push_back(std::string(actor) + ": " + std::string(text));
      came_.notify_all();
    };
  }
  /// Waits until a line holds this; false after ten seconds.
  bool holds(const std::string& part) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, 10s, [&] {
      return std::ranges::any_of(
          lines_, [&](const std::string& line) { return line.find(part) != std::string::npos; });
    });
  }
  /// The first line, as a process id; waits for it.
  pid_t first_number() {
    if (!holds("environment-0: ")) return 0;
    const std::lock_guard guard(mutex_);
    return static_cast<pid_t>(std::stoi(lines_.front().substr(lines_.front().find(' '))));
  }

private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> lines_;
};

/// A graph with one environment, supervised as in the main job.
struct scored_by {
  explicit scored_by(std::vector<std::string> words, std::chrono::nanoseconds reply_timeout = 20s)
      : env({.log = log.hook()}), actors(std::make_unique<graph>(env)) {
    const auto group = actors->supervise("environments", {.restarts_max = 2, .backoff = 1ms});
    judge = actors->add<command_environment>(group, "environment-0",
                                             command_options{std::move(words), reply_timeout});
    REQUIRE(actors->start().has_value());
  }
  static std::vector<std::string> shell(const std::string& script) { return {"sh", "-c", script}; }

  result<message<CompletionScored>> ask(const std::string& completion = "7",
                                        std::chrono::nanoseconds limit = 10s) {
    ScoreCompletionT want;
    want.prompt = "3+4=";
    want.answer = "7";
    want.completion = completion;
    return actors->ask_blocking(judge, pack(want), within(limit));
  }
  std::string end_of_run() {
    auto ended = actors->wait_blocking(10s);
    return ended ? "done" : to_string(ended.error());
  }

  remembered_log log;
  world env;
  std::unique_ptr<graph> actors;
  handle<environment_protocol> judge;
};

std::string text_of_failure(const result<message<CompletionScored>>& answer) {
  return answer ? "answered" : to_string(answer.error());
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_SUITE_BEGIN("actors/environment/program");

TEST_CASE("a program scores completions, one line each") {
  scored_by run(scored_by::shell(answering));
  for (int i = 0; i < 3; ++i) {
    auto scored = run.ask();
    REQUIRE(scored.has_value());
    CHECK((*scored)->reward() == 0.5F);
    CHECK((*scored)->done());
  }
}

TEST_CASE("answers in another order find their requests") {
  scored_by run(scored_by::shell("read -r first; read -r second; "
                                 "echo '{\"id\": 1, \"reward\": 0.25}'; "
                                 "echo '{\"id\": 0, \"reward\": 0.75}'; read -r more"));
  result<message<CompletionScored>> early = failure(errc::internal, "not asked");
  std::thread other([&] { early = run.ask("first"); });
  auto late = run.ask("second");
  other.join();
  REQUIRE(early.has_value());
  REQUIRE(late.has_value());
  CHECK((*early)->reward() + (*late)->reward() == 1.0F);
}

TEST_CASE("a program that ends is started again, and its request fails with its last words") {
  scored_by run(scored_by::shell("read -r line; echo 'cannot load the judge' >&2; exit 3"));
  const std::string said = text_of_failure(run.ask());
  CHECK(mentions(said, "env.command (sh -c "));
  CHECK(mentions(said, "exited with status 3; its last words: cannot load the judge"));
  CHECK(run.log.holds("environment-0: cannot load the judge"));
}

TEST_CASE("a program that is killed costs its requests one attempt, and the next one is answered") {
  scored_by run(scored_by::shell("read -r line; case $line in *poison*) kill -9 $$;; esac; "
                                 "echo '{\"id\": 0, \"reward\": 1}'; read -r more"));
  CHECK(mentions(text_of_failure(run.ask("poison")), "was killed by signal 9"));
  result<message<CompletionScored>> scored = run.ask();
  while (!scored) // Refused at once until the next life has begun.
    scored = run.ask();
  CHECK((*scored)->reward() == 1.0F);
}

TEST_CASE("a program that fails again and again ends the run with its last error") {
  scored_by run(scored_by::shell("exit 4"));
  const std::string said = run.end_of_run();
  CHECK(mentions(said, "environments"));
  CHECK(mentions(said, "env.command (sh -c exit 4) exited with status 4"));
}

TEST_CASE("a program that does not exist is said to be so") {
  scored_by run({"no-such-judge", "--fast"});
  CHECK(mentions(run.end_of_run(), "env.command (no-such-judge --fast) cannot be started: No such "
                                   "file or directory"));
  CHECK(mentions(to_string(find_program("no-such-judge").error()), "is no program along PATH"));
  CHECK(find_program("sh").has_value());
}

TEST_CASE("a hung program is killed, and the error says how long it was waited for") {
  scored_by run(scored_by::shell("read -r line; read -r never"), 50ms);
  const std::string said = text_of_failure(run.ask());
  CHECK(mentions(said, "has answered nothing for 0.05 s while 1 requests wait"));
  CHECK(mentions(said, "env_timeout_s"));
}

TEST_CASE("garbage is shown, and is no answer") {
  scored_by run(scored_by::shell("read -r line; echo 'loading the judge...'; read -r more"));
  CHECK(mentions(text_of_failure(run.ask()), "got: loading the judge..."));
}

TEST_CASE("an answer to a question that nobody asked is refused") {
  scored_by run(scored_by::shell("read -r l; echo '{\"id\": 77, \"reward\": 1}'; read -r more"));
  CHECK(mentions(text_of_failure(run.ask()),
                 "answered request 77, which nobody has made, with: {\"id\": 77"));
}

TEST_CASE("a line without an end is cut off at the limit") {
  scored_by run(scored_by::shell("read -r line; head -c 17000000 /dev/zero; read -r more"));
  CHECK(mentions(text_of_failure(run.ask()), "wrote a line of more than 16777216 bytes"));
}

TEST_CASE("a reward that is no number is the fault of that prompt alone") {
  scored_by run(scored_by::shell("read -r l; echo '{\"id\": 0, \"reward\": NaN}'; "
                                 "read -r l; echo '{\"id\": 1, \"reward\": 1}'; read -r more"));
  auto first = run.ask();
  REQUIRE_FALSE(first.has_value());
  CHECK(first.error().code == errc::invalid_argument);
  CHECK(mentions(first.error().text, "gave no reward: \"reward\" is missing or not a finite"));
  CHECK(run.ask().has_value());
}

TEST_CASE("whoever gives up waits for no judge, and neither does the end of the graph") {
  scored_by run(scored_by::shell("exec sleep 60"));
  const std::int64_t asked = run.env.clock().now();
  auto scored = run.ask("7", 20ms);
  REQUIRE_FALSE(scored.has_value());
  CHECK(scored.error().code == errc::timed_out);
  CHECK(run.actors->stop().has_value());
  CHECK(std::chrono::nanoseconds(run.env.clock().now() - asked) < 5s);
}

TEST_CASE("nothing of a program outlives its graph: no process, no descriptor") {
  const std::size_t before = open_descriptors();
  pid_t judge = 0;
  {
    scored_by run(scored_by::shell("echo $$ >&2; " + answering));
    REQUIRE(run.ask().has_value());
    judge = run.log.first_number();
    REQUIRE(judge > 0);
    REQUIRE(::kill(judge, 0) == 0);
  }
  CHECK(::kill(judge, 0) != 0);
  CHECK(open_descriptors() == before);
}

TEST_SUITE_END();

} // namespace weir::test
