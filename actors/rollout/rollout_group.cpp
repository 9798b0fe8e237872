#include "actors/rollout/rollout_group.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

result<void> append_sibling(rollout_group& group, const SiblingTokens& part) {
  const std::string name =
      "group " + std::to_string(group.prompt.group) + " sibling " + std::to_string(part.sibling());
  if (part.sibling() >= group.rollouts.size())
    return failure(errc::corrupt,
                   name + ": the group has " + std::to_string(group.rollouts.size()) + " siblings");
  sibling_rollout& rollout = group.rollouts[part.sibling()];
  const auto count = part.tokens() != nullptr ? part.tokens()->size() : 0;
  const auto logprobs = part.logprobs() != nullptr ? part.logprobs()->size() : 0;
  const auto versions = part.versions() != nullptr ? part.versions()->size() : 0;
  if (logprobs != count || versions != count)
    return failure(errc::corrupt, name + ": " + std::to_string(count) + " tokens, " +
                                      std::to_string(logprobs) + " log-probabilities, " +
                                      std::to_string(versions) + " versions");
  if (rollout.finished) return failure(errc::corrupt, name + ": tokens after its last one");
  if (part.finish() == FinishReason::aborted)
    return failure(errc::unavailable, name + ": the generator aborted it");
  for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
    rollout.tokens.push_back(part.tokens()->Get(i));
    rollout.logprobs.push_back(part.logprobs()->Get(i));
    rollout.versions.push_back(part.versions()->Get(i));
  }
  rollout.finished = part.finish() != FinishReason::unfinished;
  if (rollout.finished && rollout.tokens.empty())
    return failure(errc::corrupt, name + ": finished without a token");
  return {};
}

std::vector<std::unique_ptr<GroupReservationT>> reservations_of(const prompt_batch& batch,
                                                                std::uint32_t siblings) {
  std::vector<std::unique_ptr<GroupReservationT>> entries;
  for (const PromptT& prompt : batch.prompts) {
    auto entry = std::make_unique<GroupReservationT>();
    entry->group = prompt.group;
    entry->sample = std::make_unique<SampleId>(*prompt.sample);
    entry->content_hash = std::make_unique<Hash128>(*prompt.content_hash);
    entry->task = prompt.task;
    entry->siblings = siblings;
    entries.push_back(std::move(entry));
  }
  return entries;
}

} // namespace

result<void> append_tokens(rollout_group& group, const TokenBatch& batch) {
  if (batch.siblings() == nullptr) return {};
  for (const auto* part : *batch.siblings()) {
    if (auto appended = append_sibling(group, *part); !appended) return appended;
  }
  return {};
}

bool all_finished(const rollout_group& group) {
  return std::ranges::all_of(group.rollouts, &sibling_rollout::finished);
}

std::int64_t start_version_of(const rollout_group& group) {
  std::int64_t start = -1;
  for (const sibling_rollout& rollout : group.rollouts) {
    if (rollout.versions.empty()) continue;
    const auto first = static_cast<std::int64_t>(rollout.versions.front());
    start = start < 0 ? first : std::min(start, first);
  }
  return start;
}

StageGroupT staged_form(const rollout_group& group) {
  StageGroupT request;
  request.group = group.prompt.group;
  request.content_attempt = group.content_attempt;
  for (const sibling_rollout& rollout : group.rollouts) {
    auto row = std::make_unique<SiblingRolloutT>();
    row->tokens = group.prompt_tokens;
    row->tokens.insert(row->tokens.end(), rollout.tokens.begin(), rollout.tokens.end());
    row->prompt_length = static_cast<std::uint32_t>(group.prompt_tokens.size());
    row->logprobs = rollout.logprobs;
    row->versions = rollout.versions;
    row->reward = rollout.reward;
    request.siblings.push_back(std::move(row));
  }
  return request;
}

std::vector<PromptT>
unpack_prompts(const flatbuffers::Vector<flatbuffers::Offset<Prompt>>& prompts) {
  std::vector<PromptT> unpacked;
  unpacked.reserve(prompts.size());
  for (const auto* prompt : prompts) {
    PromptT one;
    prompt->UnPackTo(&one);
    // Struct fields are optional on the wire; a prompt without them is the zero sample, and its
    // hash check fails where it is needed.
    if (one.sample == nullptr) one.sample = std::make_unique<SampleId>();
    if (one.content_hash == nullptr) one.content_hash = std::make_unique<Hash128>();
    unpacked.push_back(std::move(one));
  }
  return unpacked;
}

result<ledger_record> record_of(const LedgerRecord& packed) {
  LedgerRecordT unpacked;
  packed.UnPackTo(&unpacked);
  return unpack_record(unpacked);
}

result<std::vector<ledger_record>>
records_of(const flatbuffers::Vector<flatbuffers::Offset<LedgerRecord>>* packed) {
  std::vector<ledger_record> records;
  if (packed == nullptr) return records;
  for (const LedgerRecord* one : *packed) {
    auto record = record_of(*one);
    if (!record) return failure(std::move(record.error()));
    records.push_back(std::move(*record));
  }
  return records;
}

ReserveBatchT cursor_move_of(const prompt_batch& batch) {
  ReserveBatchT move;
  move.first_group = batch.first_group;
  move.count = batch.prompts.size();
  return move;
}

ReserveGroupsT reservation_of(const prompt_batch& batch, std::uint64_t admission_id,
                              std::uint32_t siblings) {
  ReserveGroupsT request;
  request.admission = admission_id;
  request.groups = reservations_of(batch, siblings);
  return request;
}

DivertGroupsT diversion_of(const prompt_batch& batch, std::uint32_t siblings) {
  DivertGroupsT request;
  request.groups = reservations_of(batch, siblings);
  return request;
}

PromptKeyT key_of(const ledger_record& record) {
  PromptKeyT key;
  key.group = record.group.value;
  key.sample = std::make_unique<SampleId>(record.sample.epoch, record.sample.position);
  key.content_hash = std::make_unique<Hash128>(record.hash.low, record.hash.high);
  return key;
}

StartGroupT start_of(const rollout_group& group, std::optional<std::uint64_t> pin) {
  StartGroupT request;
  request.group = group.prompt.group;
  request.dispatch_index = group.stamp.dispatch_index;
  request.target_step = group.stamp.target_step;
  request.admission_version = pin.value_or(group.stamp.admission_version);
  request.window = group.stamp.window;
  return request;
}

GenerateGroupT generation_of(const rollout_group& group, std::uint32_t max_new_tokens,
                             const StreamRefT& stream, std::optional<std::uint64_t> pin) {
  GenerateGroupT request;
  request.group = group.prompt.group;
  request.sample = std::make_unique<SampleId>(*group.prompt.sample);
  request.content_attempt = group.content_attempt;
  request.siblings = group.siblings;
  request.prompt = group.prompt_tokens;
  request.max_new_tokens = max_new_tokens;
  request.minimum_version = pin.value_or(group.stamp.admission_version);
  request.pinned = pin.has_value();
  request.stream = std::make_unique<StreamRefT>(stream);
  return request;
}

std::uint64_t pinned_version(const group_stamp& stamp, const weight_pins& pins) {
  ensure(stamp.target_step >= 0, "a pinned group is stamped");
  const auto target = static_cast<std::uint64_t>(stamp.target_step);
  return std::max(pins.oldest, target - std::min(target, pins.window));
}

AbortGroupT abort_of(const rollout_group& group) {
  AbortGroupT note;
  note.group = group.prompt.group;
  note.content_attempt = group.content_attempt;
  return note;
}

DiscardGroupT discard_of(const rollout_group& group) {
  DiscardGroupT note;
  note.group = group.prompt.group;
  note.content_attempt = group.content_attempt;
  return note;
}

CommitGroupT commit_of(const rollout_group& group, const GroupReleased& released) {
  CommitGroupT request;
  request.group = group.prompt.group;
  request.content_attempt = group.content_attempt;
  request.sample = std::make_unique<SampleId>(*group.prompt.sample);
  request.dispatch_index = released.dispatch_index();
  request.target_step = released.target_step();
  request.admission_version = released.admission_version();
  request.window = released.window();
  request.content_hash = std::make_unique<Hash128>(*group.prompt.content_hash);
  request.task = group.prompt.task;
  return request;
}

FailureKind failure_kind_of(const error& reason) {
  switch (reason.code) {
  case errc::invalid_argument:
  case errc::unsupported:
    return FailureKind::data;
  case errc::not_found:
  case errc::already_exists:
  case errc::conflict:
  case errc::corrupt:
  case errc::io_failed:
  case errc::no_space:
  case errc::exhausted:
  case errc::timed_out:
  case errc::cancelled:
  case errc::unavailable:
  case errc::internal:
    return FailureKind::infra;
  }
  return FailureKind::infra;
}

} // namespace weir
