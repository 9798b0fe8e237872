/// What one group carries from the dataset to its commit. Plain values, no actor.
#pragma once

#include "actors/sampler/ledger.hpp"
#include "messages/message.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir {

/// A batch as the dataloader handed it out; shorter than asked only at the end of the data.
struct prompt_batch {
  std::uint64_t first_group = 0;
  std::vector<PromptT> prompts;
};

/// What to do with a group whose attempt failed.
struct failure_verdict {
  bool found = false; ///< False: somebody aborted the group; forget it.
  bool retry = false;
  std::uint32_t content_attempt = 0;
  std::uint64_t backoff_ns = 0;
};

/// One completion as it arrives: tokens in order, each with its log-probability and version.
struct sibling_rollout {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<std::uint64_t> versions;
  bool finished = false;
  float reward = 0.0F;
};

/// What admission said of a group.
struct group_stamp {
  std::int64_t dispatch_index = -1;
  std::int64_t target_step = -1;
  std::uint64_t admission_version = 0;
  std::uint64_t window = 0;
};

/// A group on its way. Shared by the coroutines of one actor, which run one at a time.
struct rollout_group {
  PromptT prompt;
  std::vector<std::int32_t> prompt_tokens;
  group_stamp stamp;
  std::uint32_t content_attempt = 0;
  std::uint32_t siblings = 0;
  std::vector<sibling_rollout> rollouts;
  std::optional<error> failed;  ///< First failure of a sibling's score.
  std::int64_t told_start = -1; ///< What replay was told of the version of its first token.
  /// Generator of the newest infra failure: the next attempt goes to another one.
  std::optional<std::size_t> failed_at;
};

using group_ptr = std::shared_ptr<rollout_group>;

/// Appends what a token batch brought; an error when it names no sibling of the group, repeats a
/// finished one, or its lists differ in length: the stream is broken and the attempt with it.
[[nodiscard]] result<void> append_tokens(rollout_group& group, const TokenBatch& batch);

/// True once every sibling has its last token.
[[nodiscard]] bool all_finished(const rollout_group& group);

/// Version of the first token that is kept of any sibling; -1 while there is none.
[[nodiscard]] std::int64_t start_version_of(const rollout_group& group);

/// The staging request of a finished group: prompt and completion tokens in one row per sibling.
[[nodiscard]] StageGroupT staged_form(const rollout_group& group);

/// Records as messages carry them; none for an absent list. Errors: those of `unpack_record`.
[[nodiscard]] result<ledger_record> record_of(const LedgerRecord& packed);
[[nodiscard]] result<std::vector<ledger_record>>
records_of(const flatbuffers::Vector<flatbuffers::Offset<LedgerRecord>>* packed);

/// The requests of a group's life, filled in.
[[nodiscard]] std::vector<PromptT>
unpack_prompts(const flatbuffers::Vector<flatbuffers::Offset<Prompt>>& prompts);
[[nodiscard]] ReserveBatchT cursor_move_of(const prompt_batch& batch);
[[nodiscard]] ReserveGroupsT reservation_of(const prompt_batch& batch, std::uint64_t admission_id,
                                            std::uint32_t siblings);
[[nodiscard]] DivertGroupsT diversion_of(const prompt_batch& batch, std::uint32_t siblings);
/// Finds the prompt of a record in the dataset again.
[[nodiscard]] PromptKeyT key_of(const ledger_record& record);
/// With `pin`, the version that makes all of its tokens.
[[nodiscard]] GenerateGroupT generation_of(const rollout_group& group, std::uint32_t max_new_tokens,
                                           const StreamRefT& stream,
                                           std::optional<std::uint64_t> pin = {});
/// With `pin`, that version may be yet to come: replay answers once it is there.
[[nodiscard]] StartGroupT start_of(const rollout_group& group,
                                   std::optional<std::uint64_t> pin = {});
/// How groups name their version when weights are pinned.
struct weight_pins {
  std::uint64_t window = 0; ///< W.
  /// Oldest version that exists: later than v-W only after a restore from a bundle that was made
  /// with a smaller W, or without pins.
  std::uint64_t oldest = 0;
};
/// max(0, target step - W): the gate guarantees that it exists once the group is admitted.
/// @pre the sampler stamps
[[nodiscard]] std::uint64_t pinned_version(const group_stamp& stamp, const weight_pins& pins);
[[nodiscard]] AbortGroupT abort_of(const rollout_group& group);
[[nodiscard]] DiscardGroupT discard_of(const rollout_group& group);
[[nodiscard]] CommitGroupT commit_of(const rollout_group& group, const GroupReleased& released);

/// Data failures are the prompt's own fault and count against it; everything else may be tried on
/// another generator.
[[nodiscard]] FailureKind failure_kind_of(const error& reason);

} // namespace weir
