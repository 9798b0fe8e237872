#include "actors/replay/rollout_rows.hpp"

#include <array>
#include <utility>

namespace weir {

namespace {

template <class Number>
std::span<const Number> values_of(const flatbuffers::Vector<Number>* list) {
  if (list == nullptr) return {};
  return {list->data(), list->size()};
}

result<void> check_sibling(std::uint64_t group, std::size_t index, const SiblingRollout& row) {
  const std::size_t tokens = values_of(row.tokens()).size();
  const std::size_t completion = values_of(row.logprobs()).size();
  const std::size_t versions = values_of(row.versions()).size();
  if (row.prompt_length() + completion == tokens && versions == completion && completion > 0)
    return {};
  return failure(errc::invalid_argument,
                 "group " + std::to_string(group) + " sibling " + std::to_string(index) + ": " +
                     std::to_string(tokens) + " tokens, a prompt of " +
                     std::to_string(row.prompt_length()) + ", " + std::to_string(completion) +
                     " log-probabilities, " + std::to_string(versions) + " versions");
}

dataplane::tag integer_tag(const char* name, std::uint64_t value) {
  return {name, static_cast<std::int64_t>(value)};
}

} // namespace

std::span<const std::string> rollout_fields() {
  static const std::array<std::string, 5> fields = {"tokens", "logprobs", "versions",
                                                    "prompt_length", "reward"};
  return fields;
}

result<rollout_rows> rollout_rows::of(const StageGroup& group) {
  rollout_rows made;
  const std::size_t count = group.siblings() != nullptr ? group.siblings()->size() : 0;
  if (count == 0)
    return failure(errc::invalid_argument,
                   "group " + std::to_string(group.group()) + ": no siblings to stage");
  // The cells borrow these: they are filled before the first cell is made, and never move after.
  for (std::size_t i = 0; i < count; ++i) {
    const auto& row = *group.siblings()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (auto fine = check_sibling(group.group(), i, row); !fine)
      return failure(std::move(fine.error()));
    const auto versions = values_of(row.versions());
    made.versions_.emplace_back(versions.begin(), versions.end());
    made.stored_versions_.emplace_back(versions.begin(), versions.end());
    made.prompt_lengths_.push_back(row.prompt_length());
    made.rewards_.push_back(row.reward());
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto& row = *group.siblings()->Get(static_cast<flatbuffers::uoffset_t>(i));
    const std::span<const std::int64_t> versions = made.stored_versions_[i];
    dataplane::row_input input;
    input.tags = {integer_tag("group", group.group()), integer_tag("sibling", i),
                  integer_tag("attempt", group.content_attempt())};
    input.cells = {dataplane::vector_cell("tokens", values_of(row.tokens())),
                   dataplane::vector_cell("logprobs", values_of(row.logprobs())),
                   dataplane::vector_cell("versions", versions),
                   dataplane::scalar_cell("prompt_length", made.prompt_lengths_[i]),
                   dataplane::scalar_cell("reward", made.rewards_[i])};
    made.rows_.push_back(std::move(input));
  }
  return made;
}

SiblingRolloutT sibling_of(const dataplane::batch& rows, std::size_t row) {
  ensure(rows.columns.size() == rollout_fields().size(), "all fields of a rollout were read");
  SiblingRolloutT sibling;
  const auto tokens = rows.columns[0].values<std::int32_t>(row);
  const auto logprobs = rows.columns[1].values<float>(row);
  const auto versions = rows.columns[2].values<std::int64_t>(row);
  sibling.tokens.assign(tokens.begin(), tokens.end());
  sibling.logprobs.assign(logprobs.begin(), logprobs.end());
  sibling.versions.assign(versions.begin(), versions.end());
  sibling.prompt_length =
      static_cast<std::uint32_t>(rows.columns[3].values<std::int64_t>(row).front());
  sibling.reward = rows.columns[4].values<float>(row).front();
  return sibling;
}

} // namespace weir
