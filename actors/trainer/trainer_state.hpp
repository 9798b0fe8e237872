/// The trainer's step and version, and the state that a cut captures.
///
/// Steps are numbered from 0; step s is trained at version s and makes version s + 1. After
/// training, the next state is set aside (`prepare`). The captured state switches to it inside the
/// consume lease (`consume`), together with the groups of the step in replay and its shortfall in
/// the sampler; only then is the version published. A cut at any other time captures the last
/// consumed step. So no cut holds a batch both trained and unconsumed, or neither.
///
/// The policy (weights and optimizer) is opaque here: an immutable object that a capture shares.
#pragma once

#include "actors/audit/event.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace weir {

/// What a cut keeps of the trainer. O(1) to copy.
struct trainer_image {
  /// Finished steps: the N of `step_N`, and the next step to train.
  std::uint64_t step = 0;
  /// The version that this state publishes.
  weight_version version = {};
  std::shared_ptr<const void> policy = {};
};

class trainer_state {
public:
  /// A new run (`step` 0, version 0), or what a bundle holds. @pre `initial.policy` is set, and
  /// `initial.version` equals `initial.step`.
  explicit trainer_state(trainer_image initial);

  /// The step to train now, and the version it trains at.
  [[nodiscard]] std::uint64_t step() const { return image_.step; }
  [[nodiscard]] weight_version version() const { return image_.version; }

  /// Sets the state after `step` aside. A cut does not see it yet.
  /// Errors: conflict if another step is due, one is set aside, or the newest version is not
  /// published yet.
  [[nodiscard]] result<void> prepare(std::uint64_t step, std::shared_ptr<const void> next);
  [[nodiscard]] bool prepared() const { return next_ != nullptr; }

  /// The captured state is the prepared one from now on. Called in the consume lease. Returns the
  /// version to publish. Errors: conflict if `step` is not the prepared one.
  [[nodiscard]] result<weight_version> consume(std::uint64_t step, event_stream& events);

  /// Replaces the policy without a step: the end of a supervised warm-up.
  /// Errors: conflict once a step was prepared or finished.
  [[nodiscard]] result<void> adopt(std::shared_ptr<const void> warmed_up);

  /// The generators were given `version`. Errors: conflict if it is not the captured one, which
  /// means that it would be published before its consume.
  [[nodiscard]] result<void> published(weight_version version);
  /// Whether the captured version still has to be given to the generators; true after a restore.
  [[nodiscard]] bool publish_due() const { return published_ != image_.version; }

  /// O(1). What a cut keeps.
  [[nodiscard]] const trainer_image& capture() const { return image_; }

  /// Aborts if an invariant does not hold.
  void check_invariants() const;

private:
  trainer_image image_;
  std::shared_ptr<const void> next_;
  std::optional<weight_version> published_;
};

} // namespace weir
