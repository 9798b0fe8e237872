#include "actors/environment/command_environment.hpp"

#include <cstdio>
#include <tuple>
#include <utility>

namespace weir {

namespace {

std::string seconds_of(std::chrono::nanoseconds duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(duration).count());
  return text;
}

} // namespace

command_environment::command_environment(context ctx, command_options options)
    : actor(std::move(ctx)), options_(std::move(options)), state_(options_.reply_timeout.count()),
      process_(options_.words, [world = &env(), self = name()](std::string_view line) {
        world->log(log_level::info, self, line);
      }) {
  serve(&command_environment::on_score);
  serve(&command_environment::on_probe);
}

/// Takes what the program says until it is of no use.
task<void> command_environment::run() {
  children().spawn(&command_environment::watch_silence, this);
  while (true) {
    auto came = make_completion<command_output>();
    process_.read(came.setter());
    auto output = co_await came.wait();
    if (!output) co_return fail(about_program(std::move(output.error())));
    for (const std::string& line : output->lines)
      if (auto taken = take(line); !taken) co_return fail(about_program(std::move(taken.error())));
    if (output->ended) co_return fail(about_program(std::move(*output->ended)));
  }
}

task<void> command_environment::watch_silence() {
  while (true) {
    const auto hung_at = state_.hung_at_ns();
    if (!hung_at) {
      co_await asked_.raised();
      continue;
    }
    const std::int64_t left = *hung_at - clock().now();
    if (left > 0) {
      co_await clock().after(std::chrono::nanoseconds(left));
      continue;
    }
    error hung{errc::timed_out,
               "has answered nothing for " + seconds_of(options_.reply_timeout) + " while " +
                   std::to_string(state_.waiting()) +
                   " requests wait; it is killed. If one answer may take longer, raise "
                   "async_rl.rollout_failure.env_timeout_s"};
    co_return fail(about_program(std::move(hung)));
  }
}

result<void> command_environment::take(const std::string& line) {
  auto reply = state_.heard(line, clock().now());
  if (!reply) return failure(std::move(reply.error()));
  auto asked = waiters_.extract(reply->id);
  asked.mapped()->reply = std::move(*reply);
  asked.mapped()->answered.raise();
  return {};
}

error command_environment::about_program(error reason) const {
  reason.text = "env.command (" + shown_command(options_.words) + ") " + reason.text;
  return reason;
}

task<result<message<CompletionScored>>>
command_environment::on_score(message<ScoreCompletion> request) {
  command_request line;
  line.id = state_.ask(clock().now());
  line.prompt = text_of(request->prompt());
  line.answer = text_of(request->answer());
  line.completion = text_of(request->completion());
  if (auto written = process_.write(encode(line)); !written) {
    state_.forget(line.id);
    co_return failure(about_program(std::move(written.error())));
  }
  const auto mine = std::make_shared<waiter>();
  waiters_.emplace(line.id, mine);
  asked_.raise();
  while (!mine->reply)
    co_await mine->answered.raised();
  if (!mine->reply->refusal.empty()) {
    error refused{errc::invalid_argument, "gave no reward: " + mine->reply->refusal};
    co_return failure(about_program(std::move(refused)));
  }
  CompletionScoredT answer;
  answer.reward = static_cast<float>(mine->reply->reward);
  answer.done = mine->reply->done;
  answer.observation = mine->reply->observation;
  co_return pack(answer);
}

task<result<message<ProbeAnswered>>> command_environment::on_probe(message<Probe> request) {
  std::ignore = request; // A probe asks nothing but to be answered.
  ProbeAnsweredT answer;
  answer.actor = name();
  answer.busy_with = std::to_string(state_.waiting()) + " completions";
  co_return pack(answer);
}

} // namespace weir
