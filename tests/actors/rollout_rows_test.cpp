#include "actors/replay/rollout_rows.hpp"
#include "dataplane/store.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace weir;

namespace {

/// A group of two siblings, with completions of two tokens and of one.
StageGroupT two_siblings() {
  StageGroupT group;
  group.group = 7;
  group.content_attempt = 2;
  for (const std::size_t completion : {2U, 1U}) {
    auto row = std::make_unique<SiblingRolloutT>();
    row->tokens = {40, 41};
    row->prompt_length = 2;
    for (std::size_t i = 0; i < completion; ++i) {
      row->tokens.push_back(static_cast<std::int32_t>(50 + i));
      row->logprobs.push_back(-0.25F);
      row->versions.push_back(3 + i);
    }
    row->reward = static_cast<float>(completion);
    group.siblings.push_back(std::move(row));
  }
  return group;
}

void check_refused(const StageGroupT& group, const std::string& text) {
  const auto form = pack(group);
  const auto rows = rollout_rows::of(*form);
  REQUIRE_FALSE(rows.has_value());
  CHECK(rows.error().code == errc::invalid_argument);
  CHECK(rows.error().text == text);
}

} // namespace

TEST_SUITE_BEGIN("actors/replay/rollout_rows");

TEST_CASE("what is staged is what a trainer reads, sibling by sibling") {
  const StageGroupT group = two_siblings();
  const auto form = pack(group);
  const auto rows = rollout_rows::of(*form);
  REQUIRE(rows.has_value());
  dataplane::store store;
  const auto staged = store.stage(rollout_partition, rows->rows());
  REQUIRE(staged.has_value());
  REQUIRE(store.commit(rollout_partition, *staged).has_value());
  const auto batch = store.get(rollout_partition, *staged, rollout_fields());
  REQUIRE(batch.has_value());
  for (std::size_t row = 0; row < 2; ++row) {
    const SiblingRolloutT read = sibling_of(*batch, row);
    const SiblingRolloutT& was = *group.siblings[row];
    CHECK(read.tokens == was.tokens);
    CHECK(read.logprobs == was.logprobs);
    CHECK(read.versions == was.versions);
    CHECK(read.prompt_length == was.prompt_length);
    CHECK(read.reward == was.reward);
  }
}

TEST_CASE("each row is tagged with group, sibling and attempt: what a restore compares") {
  const auto form = pack(two_siblings());
  const auto rows = rollout_rows::of(*form);
  REQUIRE(rows.has_value());
  REQUIRE(rows->rows().size() == 2);
  const std::vector<dataplane::tag> second = {
      {"group", std::int64_t{7}}, {"sibling", std::int64_t{1}}, {"attempt", std::int64_t{2}}};
  CHECK(rows->rows()[1].tags == second);
}

TEST_CASE("the versions of every token are known, so that first and last can be told") {
  const auto form = pack(two_siblings());
  const auto rows = rollout_rows::of(*form);
  REQUIRE(rows.has_value());
  REQUIRE(rows->versions().size() == 2);
  CHECK(rows->versions()[0] == std::vector<std::uint64_t>{3, 4});
  CHECK(rows->versions()[1] == std::vector<std::uint64_t>{3});
}

TEST_CASE("lists that contradict each other are refused with their lengths") {
  StageGroupT group = two_siblings();
  group.siblings[1]->logprobs.push_back(-1.0F);
  check_refused(group, "group 7 sibling 1: 3 tokens, a prompt of 2, 2 log-probabilities, "
                       "1 versions");
  group = two_siblings();
  group.siblings[0]->versions.pop_back();
  check_refused(group, "group 7 sibling 0: 4 tokens, a prompt of 2, 2 log-probabilities, "
                       "1 versions");
  group = two_siblings();
  group.siblings[0]->prompt_length = 4;
  group.siblings[0]->logprobs.clear();
  group.siblings[0]->versions.clear();
  check_refused(group, "group 7 sibling 0: 4 tokens, a prompt of 4, 0 log-probabilities, "
                       "0 versions");
  group.siblings.clear();
  check_refused(group, "group 7: no siblings to stage");
}

TEST_SUITE_END();
