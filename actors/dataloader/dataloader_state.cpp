#include "actors/dataloader/dataloader_state.hpp"

#include "messages/limits.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace weir {

static_assert(limits::records_max <= std::numeric_limits<std::uint32_t>::max(),
              "a permutation holds 32-bit record indices");

namespace detail {

std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint64_t epoch,
                                       std::uint32_t length) {
  std::vector<std::uint32_t> order(length);
  std::iota(order.begin(), order.end(), 0U);
  // Counter based: the draw for a place depends on (seed, epoch, place) alone. Taking the high word
  // of a product instead of a remainder keeps the bias below length / 2^32 of one draw.
  const std::uint64_t key = mixed(seed ^ mixed(epoch + 0x9e3779b97f4a7c15ULL));
  for (std::uint32_t left = length; left > 1; --left) {
    const std::uint64_t word = mixed(key + left * 0xd1342543de82ef95ULL) >> 32U;
    const std::uint64_t chosen = (word * left) >> 32U;
    std::swap(order[left - 1], order[chosen]);
  }
  return order;
}

} // namespace detail

dataloader_state::dataloader_state(dataset records, dataloader_options options)
    : records_(std::move(records)), options_(options) {
  cursor_.shuffle = options_.shuffle;
  cursor_.shuffle_seed = options_.shuffle_seed;
  cursor_.dataset_fingerprint = records_.fingerprint();
  cursor_.dataset_length = records_.size();
  check_invariants();
}

std::optional<std::uint64_t> dataloader_state::remaining() const {
  if (!options_.max_num_epochs) return std::nullopt;
  // A bound that was lowered on resume may lie before the cursor.
  if (cursor_.epoch >= *options_.max_num_epochs) return 0;
  const std::uint64_t epochs_left = *options_.max_num_epochs - cursor_.epoch;
  const std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  if (epochs_left > all / cursor_.dataset_length) return all;
  return epochs_left * cursor_.dataset_length - cursor_.position;
}

sample_id dataloader_state::sample_at(std::uint64_t ordinal) const {
  return {.epoch = ordinal / cursor_.dataset_length, .position = ordinal % cursor_.dataset_length};
}

std::uint64_t dataloader_state::record_index(sample_id sample) const {
  if (!cursor_.shuffle) return sample.position;
  // Neighbouring epochs share no slot, so that a batch across an edge rebuilds neither.
  cached_epoch& cached = orders_[sample.epoch % orders_.size()];
  if (cached.epoch != sample.epoch) {
    const auto length = static_cast<std::uint32_t>(cursor_.dataset_length);
    cached.order = detail::permutation(cursor_.shuffle_seed, sample.epoch, length);
    cached.epoch = sample.epoch;
  }
  return cached.order[sample.position];
}

prompt_record dataloader_state::prompt_at(sample_id sample) const {
  dataset_record record = records_.at(record_index(sample));
  return {.group = group_id(sample.epoch * cursor_.dataset_length + sample.position),
          .sample = sample,
          .hash = record.hash,
          .prompt = std::move(record.prompt),
          .answer = std::move(record.answer),
          .task = std::move(record.task)};
}

std::vector<prompt_record> dataloader_state::peek(std::uint64_t count) const {
  const std::uint64_t available = std::min(count, remaining().value_or(count));
  std::vector<prompt_record> batch;
  batch.reserve(available);
  for (std::uint64_t index = 0; index < available; ++index)
    batch.push_back(prompt_at(sample_at(cursor_.ordinal + index)));
  return batch;
}

result<void> dataloader_state::reserve(group_id first, std::uint64_t count) {
  if (first.value != cursor_.ordinal)
    return failure(errc::conflict, "prompts from ordinal " + std::to_string(first.value) +
                                       " were asked for, the dataloader is at " +
                                       std::to_string(cursor_.ordinal) + "; peek again");
  const std::uint64_t left = remaining().value_or(std::numeric_limits<std::uint64_t>::max());
  if (count > left)
    return failure(errc::exhausted, std::to_string(count) + " prompts were asked for, " +
                                        std::to_string(left) + " are left in the dataset");
  cursor_.handed_out += tally_of_range(first, count);
  cursor_.ordinal += count;
  const sample_id next = sample_at(cursor_.ordinal);
  cursor_.epoch = next.epoch;
  cursor_.position = next.position;
  check_invariants();
  return {};
}

result<prompt_record> dataloader_state::fetch(sample_id sample,
                                              std::optional<content_hash> expected) const {
  const std::string name = "sample (epoch " + std::to_string(sample.epoch) + ", position " +
                           std::to_string(sample.position) + ")";
  if (sample.position >= cursor_.dataset_length)
    return failure(errc::not_found, name + " lies beyond " + records_.name() + ", which has " +
                                        std::to_string(cursor_.dataset_length) + " records");
  const std::uint64_t epochs_max =
      std::numeric_limits<std::uint64_t>::max() / cursor_.dataset_length;
  if (sample.epoch >= epochs_max)
    return failure(errc::not_found, name + " was never handed out: no ordinal is that large");
  const std::uint64_t index = record_index(sample);
  if (expected && *expected != records_.hash_at(index))
    return failure(errc::corrupt, name + ", " + records_.place_of(index) + ": content hash is " +
                                      to_string(records_.hash_at(index)) + ", the run holds " +
                                      to_string(*expected) +
                                      "; the dataset changed under the run, put the old one back");
  return prompt_at(sample);
}

result<void> dataloader_state::load(const dataloader_cursor& saved) {
  if (saved.dataset_length != cursor_.dataset_length ||
      saved.dataset_fingerprint != cursor_.dataset_fingerprint)
    return failure(errc::conflict,
                   records_.name() + ": another or reordered dataset: the run was trained on " +
                       std::to_string(saved.dataset_length) + " records with fingerprint " +
                       to_string(saved.dataset_fingerprint) + ", this one has " +
                       std::to_string(cursor_.dataset_length) + " with " +
                       to_string(cursor_.dataset_fingerprint) +
                       "; put the old dataset back, or start a fresh run");
  if (saved.shuffle != cursor_.shuffle ||
      (saved.shuffle && saved.shuffle_seed != cursor_.shuffle_seed))
    return failure(
        errc::conflict,
        records_.name() + ": the run visits records in another order: shuffle " +
            (saved.shuffle ? "on" : "off") + " with seed " + std::to_string(saved.shuffle_seed) +
            ", the configuration says " + (cursor_.shuffle ? "on" : "off") + " with seed " +
            std::to_string(cursor_.shuffle_seed) + "; set data.shuffle and grpo.seed back");
  const sample_id expected = sample_at(saved.ordinal);
  if (expected.epoch != saved.epoch || expected.position != saved.position ||
      saved.handed_out.count != saved.ordinal)
    return failure(errc::corrupt, "dataloader cursor: ordinal " + std::to_string(saved.ordinal) +
                                      ", epoch " + std::to_string(saved.epoch) + ", position " +
                                      std::to_string(saved.position) + " and " +
                                      std::to_string(saved.handed_out.count) +
                                      " handed out contradict each other for " +
                                      std::to_string(saved.dataset_length) + " records");
  cursor_ = saved;
  cursor_.shuffle_seed = options_.shuffle_seed;
  check_invariants();
  return {};
}

void dataloader_state::check_invariants() const {
  ensure(cursor_.dataset_length > 0, "a dataset has records");
  ensure(cursor_.dataset_length == records_.size(), "the cursor belongs to the dataset");
  ensure(cursor_.position < cursor_.dataset_length, "the cursor stands on a record");
  ensure(cursor_.ordinal == cursor_.epoch * cursor_.dataset_length + cursor_.position,
         "ordinal, epoch and position agree");
  ensure(cursor_.handed_out.count == cursor_.ordinal, "every ordinal below the cursor was handed");
}

} // namespace weir
