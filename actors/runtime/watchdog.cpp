#include "actors/runtime/watchdog.hpp"

#include "actors/runtime/completion.hpp"
#include "actors/runtime/detail/actor_access.hpp"
#include "actors/runtime/detail/task_dump.hpp"

#include <functional>
#include <utility>

namespace weir {

namespace {

/// A question to an actor, on its turn; the answer comes back as a completion of the asker's.
template <class Answer>
class member_question final : public detail::posted_call {
public:
  using question = std::function<Answer(const actor&)>;

  member_question(completion_setter<Answer> setter, question asked)
      : setter_(std::move(setter)), question_(std::move(asked)) {}
  void run(actor* body) noexcept override {
    if (body != nullptr)
      setter_.set(question_(*body));
    else
      setter_.fail(error{errc::unavailable, "is being restarted"});
  }

private:
  completion_setter<Answer> setter_;
  question question_;
};

template <class Answer>
void put_question(const detail::address& to, const completion<Answer>& answer,
                  std::function<Answer(const actor&)> question) {
  detail::parcel sent;
  sent.kind = detail::parcel_kind::call;
  sent.posted = std::make_shared<member_question<Answer>>(answer.setter(), std::move(question));
  detail::post(to, detail::address(), std::move(sent));
}

task<result<std::string>> value_of(completion<std::string> answer) {
  auto value = co_await answer.wait();
  co_return value;
}

} // namespace

std::string detail::whereabouts(const address& of) {
  const std::source_location at = queue_of(of).running_at();
  if (at.line() == 0) return "on its turn, in no coroutine";
  return "in " + short_function(at.function_name()) + " (" + short_place(at) + ")";
}

watchdog::watchdog(context ctx, std::shared_ptr<detail::watched_actors> watched)
    : actor(std::move(ctx)), watched_(std::move(watched)),
      state_(watched_->options, watched_->names) {}

task<void> watchdog::run() {
  const watchdog_options& options = watched_->options;
  watched_->pulse_ns = clock().now();
  while (true) {
    const auto next = now() + options.interval;
    for (const std::size_t member : state_.begin_round(now()))
      children().spawn(&watchdog::ask, this, member);
    std::ignore = co_await with_deadline(round_answered(), within(options.interval / 2));
    watched_->pulse_ns = clock().now();
    auto found = state_.judge(now());
    if (!found.lines.empty()) {
      const std::size_t blamed = found.blamed.empty() ? 0 : found.blamed.front();
      error stall{errc::timed_out, {}, watched_->names[blamed]};
      stall.text = co_await attribution(std::move(found));
      if (options.action == stall_action::abort) {
        fail(std::move(stall));
        co_return;
      }
      log(log_level::warning, stall.text);
    }
    co_await clock().after(next - now());
  }
}

/// Waits for as long as the actor takes no messages: at most one of these is there for each.
task<void> watchdog::ask(std::size_t member) {
  auto answer = make_completion<std::vector<long_wait>>();
  const auto age = watched_->options.stall_timeout;
  put_question<std::vector<long_wait>>(watched_->where[member], answer, [age](const actor& asked) {
    return detail::actor_access::long_waits(asked, age);
  });
  auto waits = co_await answer.wait();
  state_.answered(member, waits ? std::move(*waits) : std::vector<long_wait>());
  answered_.raise();
}

task<void> watchdog::round_answered() {
  while (!state_.all_answered())
    co_await answered_.raised();
}

task<std::string> watchdog::attribution(watchdog_state::verdict found) {
  std::string text = "stalled";
  for (const std::string& line : found.lines)
    text += "\n  " + line;
  for (const std::size_t member : found.blamed) {
    const std::string tasks = co_await tasks_of(member);
    text += "\n" + tasks;
  }
  co_return text;
}

task<std::string> watchdog::tasks_of(std::size_t member) {
  const std::string& name = watched_->names[member];
  if (state_.silent(member, now()))
    co_return name + " is " + detail::whereabouts(watched_->where[member]);
  auto answer = make_completion<std::string>();
  put_question<std::string>(watched_->where[member], answer, &dump_tasks);
  const auto limit = within(watched_->options.interval / 2);
  auto dump = co_await with_deadline(value_of(std::move(answer)), limit);
  if (!dump) co_return name + ": " + dump.error().text;
  co_return *dump;
}

std::chrono::nanoseconds watchdog::now() const {
  return std::chrono::nanoseconds(clock().now());
}

} // namespace weir
