/// A learner whose policy is a few words, of which every group that it was trained on is a part: a
/// group that is lost, doubled, or trained with other tokens ends in another policy.
#pragma once

#include "actors/checkpoint/restore.hpp"
#include "actors/conservation.hpp"
#include "actors/trainer/learner.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace weir::sim {

/// The weights after some step.
struct tiny_policy {
  std::uint64_t step = 0;
  /// Every group that a step trained on; a multiset.
  group_tally trained;
  /// Steps and their groups, in order of training.
  std::uint64_t order = 0;
  /// The same with every token and every reward.
  std::uint64_t bits = 0;

  friend bool operator==(const tiny_policy&, const tiny_policy&) = default;
};

[[nodiscard]] const tiny_policy& tiny(const policy_ptr& policy);
[[nodiscard]] policy_ptr make_policy(tiny_policy policy);

/// The file of the policy in a bundle, and reading it back. Errors: corrupt.
inline constexpr const char* tiny_policy_path = "policy/weights/tiny.bin";
[[nodiscard]] std::vector<std::byte> encode(const tiny_policy& policy);
[[nodiscard]] result<tiny_policy> decode_policy(std::span<const std::byte> bytes);
[[nodiscard]] result<policy_ptr> read_tiny_policy(const restored_states& states);
[[nodiscard]] result<policy_ptr> read_tiny_version(const restored_states& states,
                                                   weight_version version);

struct tiny_learner_options {
  std::uint64_t run_seed = 0;
  std::uint64_t dataset_length = 1;
  std::uint32_t siblings = 1;
  std::uint32_t content_attempts_max = 1;
};

class tiny_learner final : public learner {
public:
  explicit tiny_learner(tiny_learner_options options) : options_(options) {}

  result<void> begin_step(const policy_ptr& before) override;
  /// Refuses (internal) rows that are not those of their group, and tokens that bear the version of
  /// other weights than those that made them.
  result<void> add_groups(const std::vector<ClaimedGroupT>& groups) override;
  result<learned> finish_step() override;
  result<learned> warm_up(const policy_ptr& before, std::uint64_t step) override;
  result<std::vector<warmup_sample>> sample(const policy_ptr& policy) override;
  policy_ptr start_of_job(const policy_ptr& warmed_up) override { return warmed_up; }
  [[nodiscard]] attachment publish(const policy_ptr& policy) const override;
  [[nodiscard]] result<std::vector<dataplane::finished_section>>
  write(const policy_ptr& policy, const section_target& target) const override;
  [[nodiscard]] result<std::vector<dataplane::finished_section>>
  write_version(const policy_ptr& policy, weight_version version,
                const section_target& target) const override;

private:
  [[nodiscard]] bool belongs(const ClaimedGroupT& group, std::uint32_t sibling) const;
  [[nodiscard]] result<void> check_versions(const ClaimedGroupT& group) const;

  const tiny_learner_options options_;
  tiny_policy next_; ///< Of the open step.
  learning_report report_;
  /// By version, what was published in this life. Shared, since publishing changes no learner.
  const std::shared_ptr<std::map<std::uint64_t, std::uint64_t>> published_ =
      std::make_shared<std::map<std::uint64_t, std::uint64_t>>();
};

} // namespace weir::sim
