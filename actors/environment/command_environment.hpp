/// An environment that is a program of the user's: `env.command`. One child process per actor.
///
/// Requests are pipelined: each is a line to the program as it comes, and its answer is found by
/// its id. The actor holds nothing durable and is restarted in place by its supervisor; so
/// whatever makes the program useless simply fails the actor: its end, a line that is no reply, an
/// answer nobody asked for, silence for `reply_timeout` while requests wait. The program is killed,
/// its pending requests are answered `unavailable` (an infra failure: tried again), the next life
/// starts it anew, and a program that keeps failing spends the budget of the group "environments"
/// and ends the run with the last error, which names the command and shows the line.
///
/// An answer whose id is known and whose reward is no finite number fails that request alone, as
/// `invalid_argument`: the prompt's own fault.
///
/// Waits on: the program's next lines (a completion), time. A caller that gives up waits for
/// nothing: the answer is dropped when it comes.
#pragma once

#include "actors/environment/command_process.hpp"
#include "actors/environment/command_state.hpp"
#include "actors/protocols.hpp"
#include "actors/runtime/actor.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir {

struct command_options {
  /// The program, found along PATH, and its arguments; no shell.
  std::vector<std::string> words;
  /// Silence of the program that counts as a hang while requests wait.
  std::chrono::nanoseconds reply_timeout = std::chrono::seconds(60);
};

class command_environment : public actor {
public:
  using protocol = environment_protocol;

  command_environment(context ctx, command_options options);

private:
  /// A request whose answer somebody waits for.
  struct waiter {
    signal answered;
    std::optional<command_reply> reply;
  };

  task<void> run() override;
  task<void> watch_silence();
  task<result<message<CompletionScored>>> on_score(message<ScoreCompletion> request);
  task<result<message<ProbeAnswered>>> on_probe(message<Probe> request);

  [[nodiscard]] result<void> take(const std::string& line);
  [[nodiscard]] error about_program(error reason) const;

  const command_options options_;
  command_state state_;
  std::map<std::uint64_t, std::shared_ptr<waiter>> waiters_;
  signal asked_;
  command_process process_;
};

} // namespace weir
