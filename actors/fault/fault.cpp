#include "actors/fault/fault.hpp"

#include <unistd.h>

#include <csignal>

namespace weir {

fault_actor::fault_actor(context ctx, detail::address target, fault_plan plan)
    : relay_actor(std::move(ctx)), target_(std::move(target)),
      state_(std::move(plan), env().random("fault " + name())) {}

task<void> fault_actor::relay(detail::reply_guard answering, frame came) {
  const fault_effect effect = decide(fault_side::request, came, came.content);
  const bool is_note = came.header.request_id == 0;
  switch (effect.kind) {
  case fault_kind::drop:
    co_await lose(std::move(answering), came.header.lease.present());
    co_return;
  case fault_kind::corrupt:
  case fault_kind::refuse:
    if (!is_note) answering.refuse(refusal(effect, came));
    co_return;
  case fault_kind::delay:
  case fault_kind::reorder:
    co_await hold_back(fault_side::request, effect);
    break;
  case fault_kind::duplicate:
    // They begin when this coroutine suspends: after the original went out.
    for (std::uint32_t copy = 0; copy < effect.count; ++copy)
      children().spawn(&fault_actor::send_copy, this, came);
    break;
  case fault_kind::kill_actor:
  case fault_kind::kill_process:
    kill(effect.kind);
    break;
  case fault_kind::pass:
    break;
  }
  if (effect.kind != fault_kind::reorder) went_past(fault_side::request);
  if (is_note)
    pass_note(target_, std::move(came));
  else
    co_await ask_and_give(std::move(answering), std::move(came));
}

task<void> fault_actor::ask_and_give(detail::reply_guard answering, frame asked) {
  auto given = co_await detail::relay_awaiter(target_, asked, limit_of(asked.header));
  if (overdue(asked.header)) {
    answering.drop();
    co_return;
  }
  const fault_effect effect = decide(fault_side::reply, asked, given.content);
  switch (effect.kind) {
  case fault_kind::drop:
    co_await lose(std::move(answering), asked.header.lease.present());
    co_return;
  case fault_kind::corrupt:
    answering.refuse(refusal(effect, {asked.header, given.content}));
    co_return;
  case fault_kind::refuse:
  case fault_kind::kill_actor:
  case fault_kind::kill_process:
    kill(effect.kind);
    answering.refuse(refusal(effect, asked));
    co_return;
  case fault_kind::delay:
  case fault_kind::reorder:
    co_await hold_back(fault_side::reply, effect);
    break;
  case fault_kind::duplicate:
    for (std::uint32_t copy = 0; copy < effect.count; ++copy)
      answering.repeat(given);
    break;
  case fault_kind::pass:
    break;
  }
  if (effect.kind != fault_kind::reorder) went_past(fault_side::reply);
  answering.pass_on(std::move(given));
}

task<void> fault_actor::send_copy(frame copy) {
  if (copy.header.request_id == 0) {
    pass_note(target_, std::move(copy));
    co_return;
  }
  const auto limit = limit_of(copy.header);
  // The original's answer goes to the asker; this one goes to nobody.
  std::ignore = co_await detail::relay_awaiter(target_, copy, limit);
}

task<void> fault_actor::hold_back(fault_side side, fault_effect effect) {
  if (effect.kind == fault_kind::delay) {
    co_await clock().after(effect.shortest);
    co_return;
  }
  const std::uint64_t held = state_.hold(side, effect.count);
  // Overtaken or not: its time is over.
  std::ignore = co_await with_deadline(until_overtaken(held), within(effect.longest));
  state_.let_go(held);
}

task<void> fault_actor::until_overtaken(std::uint64_t held) {
  while (state_.holds(held))
    co_await overtaken_.raised();
}

task<void> fault_actor::lose(detail::reply_guard answering, bool leased) {
  if (leased)
    co_await never_.raised();
  else
    answering.drop();
}

fault_effect fault_actor::decide(fault_side side, const frame& asked, const payload_ptr& content) {
  fault_effect effect = state_.decide(side, content);
  if (effect.kind != fault_kind::pass)
    log(log_level::info, std::string(to_string(effect.kind)) +
                             (side == fault_side::reply ? ": the answer to " : ": ") +
                             std::string(message_name(asked.type())));
  return effect;
}

void fault_actor::went_past(fault_side side) {
  state_.went_past(side);
  overtaken_.raise();
}

void fault_actor::kill(fault_kind kind) {
  if (kind == fault_kind::kill_process) ::kill(::getpid(), SIGKILL);
  if (kind == fault_kind::kill_actor)
    detail::end_as_failure(target_, error{errc::unavailable, "killed by " + name()});
}

error fault_actor::refusal(const fault_effect& effect, const frame& about) {
  const std::string type(message_name(about.type()));
  if (effect.kind == fault_kind::corrupt)
    return {errc::corrupt, name() + " corrupted " + type + ": " + state_.damage(about).text};
  if (effect.kind == fault_kind::refuse)
    return {effect.code, name() + " refused " + type + ": " + effect.text};
  return {errc::unavailable,
          name() + " killed " + detail::name_of(target_) + " after it had answered " + type};
}

} // namespace weir
