/// What the trainer actor needs of a policy: immutable versions, and a step from one to the next.
///
/// The seam between the actor and the numbers. The production learner is `llama_learner`; a test or
/// a simulation brings one that computes next to nothing. All calls but the constructor run on the
/// device's stream, one at a time, except `publish`, `write` and `write_version`, which read one
/// immutable policy and may run anywhere.
///
/// A step gets its groups in chunks: begin_step, add_groups once or more, finish_step. The chunks
/// in their order are the step; how it was cut into them changes no bit.
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "messages/message.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weir {

/// Weights and optimizer after some step. Opaque to the actor, immutable, shared by captures.
using policy_ptr = std::shared_ptr<const void>;

/// What a step did, for people and metrics. Means are over the tokens of the step.
struct learning_report {
  double loss = 0.0;
  double grad_norm = 0.0;
  double kl = 0.0;
  double clip_fraction = 0.0;
  double reward = 0.0;
  std::uint64_t tokens = 0;        ///< In the loss.
  std::uint64_t masked_tokens = 0; ///< Of completions, and not in the loss.
};

struct learned {
  policy_ptr next;
  learning_report report;
};

/// A completion that the policy under warm-up made, to be scored by an environment.
struct warmup_sample {
  std::string prompt;
  std::string answer;
  std::string completion;
};

class learner {
public:
  learner() = default;
  learner(const learner&) = delete;
  learner& operator=(const learner&) = delete;
  virtual ~learner() = default;

  /// Opens a policy-gradient step, and forgets one that was open. Reads `before` only.
  [[nodiscard]] virtual result<void> begin_step(const policy_ptr& before) = 0;
  /// The next groups of the open step, in the order given. A chunk without a trainable token
  /// changes nothing.
  [[nodiscard]] virtual result<void> add_groups(const std::vector<ClaimedGroupT>& groups) = 0;
  /// The policy after the open step; the one before it when no chunk had a trainable token.
  [[nodiscard]] virtual result<learned> finish_step() = 0;
  /// One step over all its groups at once.
  [[nodiscard]] result<learned> learn(const policy_ptr& before,
                                      const std::vector<ClaimedGroupT>& groups) {
    if (auto begun = begin_step(before); !begun) return failure(std::move(begun.error()));
    if (auto added = add_groups(groups); !added) return failure(std::move(added.error()));
    return finish_step();
  }
  /// Supervised step number `step` of the warm-up: the same batch whenever it is asked again.
  [[nodiscard]] virtual result<learned> warm_up(const policy_ptr& before, std::uint64_t step) = 0;
  /// Completions to measure the warm-up by: the same ones whenever it is asked again.
  [[nodiscard]] virtual result<std::vector<warmup_sample>> sample(const policy_ptr& policy) = 0;
  /// The policy that the job begins with, from what the warm-up ended with: a fresh optimizer.
  [[nodiscard]] virtual policy_ptr start_of_job(const policy_ptr& warmed_up) = 0;

  /// The flat weights, shared with the policy: no copy.
  [[nodiscard]] virtual attachment publish(const policy_ptr& policy) const = 0;
  /// Writes `policy/` below the unfinished bundle's directory.
  [[nodiscard]] virtual result<std::vector<dataplane::finished_section>>
  write(const policy_ptr& policy, const section_target& target) const = 0;
  /// Writes the weights of an earlier version alone, to `policy/weights_VERSION/`.
  [[nodiscard]] virtual result<std::vector<dataplane::finished_section>>
  write_version(const policy_ptr& policy, weight_version version,
                const section_target& target) const = 0;
};

/// `policy/weights_7/`: where a bundle keeps an earlier version that pinned groups may name.
[[nodiscard]] inline std::string version_directory(weight_version version) {
  return "policy/weights_" + std::to_string(version.value) + "/";
}

} // namespace weir
