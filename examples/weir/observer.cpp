#include "examples/weir/observer.hpp"

#include <fmt/format.h>

#include <utility>

namespace weir {

observer::observer(context ctx, std::shared_ptr<run_output> output,
                   std::shared_ptr<run_counters> counters)
    : actor(std::move(ctx)), output_(std::move(output)), counters_(std::move(counters)),
      last_step_ns_(clock().now()) {
  serve(&observer::on_step);
  serve(&observer::on_warmup);
  serve(&observer::on_finished);
  serve(&observer::on_published);
}

task<void> observer::on_step(message<StepFinished> note) {
  const std::int64_t now = clock().now();
  const std::uint64_t tokens = counters_->tokens_generated.load();
  const double elapsed = static_cast<double>(now - last_step_ns_) / 1e9;
  progress state;
  state.step = note->step();
  state.reward = static_cast<double>(note->reward());
  state.loss = static_cast<double>(note->loss());
  state.tokens_per_second =
      elapsed > 0.0 ? static_cast<double>(tokens - last_tokens_) / elapsed : 0.0;
  state.staleness = note->lag_mean();
  state.groups_in_flight = counters_->groups_in_flight.load();
  state.groups_buffered = counters_->groups_buffered.load();
  if (published_ns_ != 0) {
    state.last_hold_us = hold_us_;
    state.checkpoint_age_s = static_cast<double>(now - published_ns_) / 1e9;
  }
  last_step_ns_ = now;
  last_tokens_ = tokens;
  output_->show(state);
  output_->metric(fmt::format(
      "{{\"event\": \"step\", \"incarnation\": {}, \"step\": {}, \"reward\": {:.6f}, "
      "\"loss\": {:.6f}, \"grad_norm\": {:.6f}, \"kl\": {:.6f}, \"clip_fraction\": {:.6f}, "
      "\"staleness\": {:.4f}, \"groups\": {}, \"tokens\": {}, \"tokens_per_second\": {:.1f}, "
      "\"train_ns\": {}, \"wait_ns\": {}}}",
      life().value, note->step(), note->reward(), note->loss(), note->grad_norm(), note->kl(),
      note->clip_fraction(), note->lag_mean(), note->groups(), note->tokens(),
      state.tokens_per_second, note->train_ns(), note->waited_ns()));
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

} // namespace weir
