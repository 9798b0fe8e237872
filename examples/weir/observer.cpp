#include "examples/weir/observer.hpp"

#include <fmt/format.h>

#include <utility>

namespace weir {

observer::observer(context ctx, std::shared_ptr<run_output> output,
                   std::shared_ptr<run_counters> counters, permit_limits limits)
    : actor(std::move(ctx)), output_(std::move(output)), counters_(std::move(counters)),
      last_step_ns_(clock().now()), limits_(limits) {
  serve(&observer::on_step);
  serve(&observer::on_warmup);
  serve(&observer::on_finished);
  serve(&observer::on_published);
  serve(&observer::on_validated);
}

std::uint64_t observer::since_last_step(const std::atomic<std::uint64_t>& counter) {
  const std::uint64_t now = counter.load();
  return now - std::exchange(last_counts_[&counter], now);
}

step_report observer::report_of(const StepFinished& step) {
  const run_counters& counts = *counters_;
  step_report report;
  report.incarnation = life().value;
  report.step = step.step();
  report.reward = static_cast<double>(step.reward());
  report.loss = static_cast<double>(step.loss());
  report.grad_norm = static_cast<double>(step.grad_norm());
  report.kl = static_cast<double>(step.kl());
  report.clip_fraction = static_cast<double>(step.clip_fraction());
  report.lag_mean = step.lag_mean();
  if (step.staleness() != nullptr)
    report.staleness.assign(step.staleness()->begin(), step.staleness()->end());
  report.groups = step.groups();
  report.chunks = step.chunks();
  report.tokens = step.tokens();
  report.masked_tokens = step.masked_tokens();
  for (std::size_t i = 0; i < drop_reasons; ++i)
    report.dropped.emplace_back(to_string(static_cast<drop_reason>(i)),
                                since_last_step(counts.groups_dropped[i]));
  // Both are dropped as stale: ready groups by replay, and groups in flight by the rollout actor.
  std::uint64_t& stale = report.dropped[static_cast<std::size_t>(drop_reason::stale)].second;
  const std::uint64_t evicted = stale;
  const std::uint64_t aborted = since_last_step(counts.groups_aborted);
  stale += aborted;
  report.events = {{"evicted", evicted},
                   {"aborted", aborted},
                   {"replaced", since_last_step(counts.prompts_replaced)},
                   {"promoted", since_last_step(counts.prompts_promoted)},
                   {"reissued", since_last_step(counts.groups_reissued)}};
  report.in_flight = {counts.groups_in_flight.load(), limits_.in_flight};
  report.buffered = {counts.groups_buffered.load(), limits_.buffered};
  report.train_ns = step.train_ns();
  report.wait_ns = step.waited_ns();
  report.waits = {{"admission", since_last_step(counts.gate_wait_ns)},
                  {"slots", since_last_step(counts.slot_wait_ns)},
                  {"flights", since_last_step(counts.flight_wait_ns)},
                  {"generators", since_last_step(counts.generators_idle_ns)}};
  return report;
}

task<void> observer::on_step(message<StepFinished> note) {
  const std::int64_t now = clock().now();
  const double elapsed = static_cast<double>(now - std::exchange(last_step_ns_, now)) / 1e9;
  const auto tokens = static_cast<double>(since_last_step(counters_->tokens_generated));
  step_report report = report_of(*note.operator->());
  report.tokens_per_second = elapsed > 0.0 ? tokens / elapsed : 0.0;
  progress state;
  state.step = report.step;
  state.reward = report.reward;
  state.loss = report.loss;
  state.tokens_per_second = report.tokens_per_second;
  state.staleness = report.lag_mean;
  state.groups_in_flight = report.in_flight.taken;
  state.groups_buffered = report.buffered.taken;
  for (const auto& [reason, groups] : report.dropped)
    dropped_ += groups;
  state.groups_dropped = dropped_;
  if (published_ns_ != 0) {
    state.last_hold_us = hold_us_;
    state.checkpoint_age_s = static_cast<double>(now - published_ns_) / 1e9;
  }
  output_->show(state);
  output_->metric(to_json(report));
  co_return;
}

task<void> observer::on_warmup(message<WarmupAdvanced> note) {
  if (note->measured())
    output_->say(fmt::format("warm-up step {}  loss {:.3f}  reward {:.3f}", note->step(),
                             note->loss(), note->reward()));
  if (note->finished()) output_->say(fmt::format("warm-up finished after {} steps", note->step()));
  co_return;
}

task<result<message<RunFinishNoted>>> observer::on_finished(message<RunFinished> request) {
  output_->set_job_done(text_of(request->reason()));
  RunFinishNotedT noted;
  noted.steps = request->steps();
  co_return pack(noted);
}

task<void> observer::on_published(message<CheckpointPublished> note) {
  published_ns_ = clock().now();
  hold_us_ = static_cast<double>(note->hold_ns()) / 1e3;
  co_return;
}

task<void> observer::on_validated(message<Validated> note) {
  const bool exact = note->accuracy() >= 0.0; // The environment says what is right.
  const std::string accuracy =
      exact ? fmt::format(", \"val_accuracy\": {:.6f}", note->accuracy()) : "";
  output_->metric(fmt::format(
      "{{\"event\": \"validation\", \"incarnation\": {}, \"step\": {}, \"val_reward\": {:.6f}{}, "
      "\"samples\": {}, \"failed\": {}, \"tokens\": {}, \"took_ns\": {}}}",
      life().value, note->step(), note->reward(), accuracy, note->samples(), note->failed(),
      note->tokens(), note->took_ns()));
  output_->say(fmt::format("step {}  val reward {:.3f}{}", note->step(), note->reward(),
                           exact ? fmt::format("  val accuracy {:.3f}", note->accuracy()) : ""));
  co_return;
}

} // namespace weir
