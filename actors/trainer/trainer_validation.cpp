/// The trainer between two steps: validation runs, and what bundles are kept by.
#include "actors/trainer/trainer.hpp"

#include <memory>
#include <string>

namespace weir {

/// A run that starts at such a step makes it, too: the life before may have died in the middle.
bool trainer::validation_due(std::uint64_t step) const {
  const validation_schedule& when = options_.validation;
  if (step == 0) return when.at_start;
  return when.period > 0 && step % when.period == 0;
}

bool trainer::kept_by_validation() const {
  return options_.validation.metric != kept_by::train_reward;
}

/// What the bundle of the state after `step` steps is kept by; nothing if that was not measured.
std::optional<double> trainer::metric_of(std::uint64_t step) const {
  if (!kept_by_validation()) return step_reward_;
  if (!validated_ || validated_->step != step) return std::nullopt;
  if (options_.validation.metric == kept_by::val_reward) return validated_->reward;
  return validated_->accuracy >= 0.0 ? std::optional(validated_->accuracy) : std::nullopt;
}

task<void> trainer::validate_if_due() {
  if (validation_due(state_.step())) co_await validate();
}

/// Scores the held-out prompts with the weights that are live, and publishes nothing meanwhile. No
/// run ends for it: without a result the step has no metric.
task<void> trainer::validate() {
  if (!peers_.validation) co_return;
  if (validated_ && validated_->step == state_.step()) co_return;
  ValidateT want;
  want.step = state_.step();
  want.version = state_.version().value;
  auto request = pack(want);
  while (true) {
    auto validated = co_await peers_.validation.ask(request, within(options_.batch_timeout));
    if (!validated && validated.error().code == errc::timed_out)
      continue; // It takes as long as its samples do, and each of those has deadlines.
    if (!validated) {
      log(log_level::warning, "no validation of step " + std::to_string(want.step) + ": " +
                                  to_string(validated.error()));
      co_return;
    }
    validated_.emplace();
    (*validated)->UnPackTo(&*validated_);
    co_return;
  }
}

} // namespace weir
