#include "actors/dataloader/dataloader.hpp"

#include "actors/dataloader/dataloader_section.hpp"
#include "messages/limits.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

std::unique_ptr<PromptT> wire_prompt(prompt_record record) {
  auto wire = std::make_unique<PromptT>();
  wire->group = record.group.value;
  wire->sample = std::make_unique<SampleId>(record.sample.epoch, record.sample.position);
  wire->content_hash = std::make_unique<Hash128>(record.hash.low, record.hash.high);
  wire->text = std::move(record.prompt);
  wire->answer = std::move(record.answer);
  wire->task = std::move(record.task);
  return wire;
}

} // namespace

dataloader::dataloader(context ctx, dataloader_state state, event_sink& events)
    : participant(std::move(ctx), barrier_role::only_owner, events), state_(std::move(state)) {
  serve(&dataloader::on_peek);
  serve(&dataloader::on_reserve);
  serve(&dataloader::on_fetch);
}

task<result<message<BatchPeeked>>> dataloader::on_peek(message<PeekBatch> request) {
  const std::uint64_t count = std::min(request->count(), limits::groups_per_step_max);
  BatchPeekedT answer;
  answer.first_group = state_.next_group().value;
  for (auto& record : state_.peek(count))
    answer.prompts.push_back(wire_prompt(std::move(record)));
  answer.end_of_data = answer.prompts.size() < count;
  co_return pack(answer);
}

task<result<message<BatchReserved>>> dataloader::on_reserve(lease_ref lease,
                                                            message<ReserveBatch> request) {
  const group_id first(request->first_group());
  const auto moved = state_.reserve(first, request->count());
  if (!moved) co_return failure(moved.error());
  applied(lease);
  for (const auto& part : handed_out_parts(state_, first, request->count()))
    events().append(part);
  BatchReservedT answer;
  answer.next_group = state_.next_group().value;
  co_return pack(answer);
}

task<result<message<PromptsFetched>>> dataloader::on_fetch(message<FetchPrompts> request) {
  PromptsFetchedT answer;
  const auto* const keys = request->keys();
  for (flatbuffers::uoffset_t i = 0; keys != nullptr && i < keys->size(); ++i) {
    const PromptKey& key = *keys->Get(i);
    if (key.sample() == nullptr || key.content_hash() == nullptr)
      co_return failure(errc::invalid_argument, "group " + std::to_string(key.group()) +
                                                    ": sample and content hash are needed");
    const sample_id sample{key.sample()->epoch(), key.sample()->position()};
    const content_hash expected{key.content_hash()->low(), key.content_hash()->high()};
    auto found = state_.fetch(sample, expected);
    if (!found) co_return failure(std::move(found.error()));
    answer.prompts.push_back(wire_prompt(std::move(*found)));
  }
  co_return pack(answer);
}

captured_section dataloader::capture() {
  captured_section section;
  section.sequence = events().newest();
  section.tallies.handed_out = state_.handed_out();
  const dataloader_cursor cursor = state_.capture();
  section.write = [cursor](const section_target& target) {
    return write_one_section(target, "train_dataloader.fb", encode(cursor, target.epoch));
  };
  return section;
}

} // namespace weir
