#include "actors/rollout/rollout_group.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <utility>

using namespace weir;

namespace {

/// A group of two siblings with a prompt of two tokens.
rollout_group started() {
  rollout_group group;
  group.prompt.group = 7;
  group.prompt.sample = std::make_unique<SampleId>(1, 3);
  group.prompt.content_hash = std::make_unique<Hash128>(10, 20);
  group.prompt.task = "sum";
  group.prompt_tokens = {40, 41};
  group.stamp = {.dispatch_index = 4, .target_step = 5, .admission_version = 3, .window = 2};
  group.content_attempt = 1;
  group.siblings = 2;
  group.rollouts.resize(2);
  return group;
}

/// Tokens 1, 2, ... of one sibling, each made by `version`.
message<TokenBatch> tokens_of(std::uint32_t sibling, std::size_t count,
                              FinishReason finish = FinishReason::unfinished,
                              std::uint64_t version = 3) {
  auto part = std::make_unique<SiblingTokensT>();
  part->sibling = sibling;
  for (std::size_t i = 0; i < count; ++i) {
    part->tokens.push_back(static_cast<std::int32_t>(i + 1));
    part->logprobs.push_back(-0.5F);
    part->versions.push_back(version);
  }
  part->finish = finish;
  TokenBatchT batch;
  batch.siblings.push_back(std::move(part));
  return pack(batch);
}

void check_refused(const result<void>& outcome, errc code, const std::string& text) {
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code == code);
  CHECK(outcome.error().text == text);
}

} // namespace

TEST_SUITE_BEGIN("actors/rollout/rollout_group");

TEST_CASE("tokens come in batches, each with its version, until every sibling has its last one") {
  rollout_group group = started();
  REQUIRE(append_tokens(group, *tokens_of(0, 2)).has_value());
  REQUIRE(append_tokens(group, *tokens_of(0, 1, FinishReason::stop_token, 4)).has_value());
  CHECK(group.rollouts[0].tokens == std::vector<std::int32_t>{1, 2, 1});
  CHECK(group.rollouts[0].versions == std::vector<std::uint64_t>{3, 3, 4});
  CHECK(group.rollouts[0].finished);
  CHECK_FALSE(all_finished(group));
  REQUIRE(append_tokens(group, *tokens_of(1, 1, FinishReason::length)).has_value());
  CHECK(all_finished(group));
}

TEST_CASE("a stream that says what cannot be is refused, naming group and sibling") {
  rollout_group group = started();
  check_refused(append_tokens(group, *tokens_of(2, 1)), errc::corrupt,
                "group 7 sibling 2: the group has 2 siblings");
  check_refused(append_tokens(group, *tokens_of(1, 0, FinishReason::stop_token)), errc::corrupt,
                "group 7 sibling 1: finished without a token");
  REQUIRE(append_tokens(group, *tokens_of(0, 1, FinishReason::stop_token)).has_value());
  check_refused(append_tokens(group, *tokens_of(0, 1)), errc::corrupt,
                "group 7 sibling 0: tokens after its last one");
  TokenBatchT uneven;
  uneven.siblings.push_back(std::make_unique<SiblingTokensT>());
  uneven.siblings.back()->sibling = 1;
  uneven.siblings.back()->tokens = {1, 2};
  uneven.siblings.back()->logprobs = {-1.0F};
  uneven.siblings.back()->versions = {3, 3};
  check_refused(append_tokens(group, *pack(uneven)), errc::corrupt,
                "group 7 sibling 1: 2 tokens, 1 log-probabilities, 2 versions");
}

TEST_CASE("a sibling that its generator aborted may be tried elsewhere") {
  rollout_group group = started();
  const auto aborted = append_tokens(group, *tokens_of(0, 1, FinishReason::aborted));
  check_refused(aborted, errc::unavailable, "group 7 sibling 0: the generator aborted it");
  CHECK(failure_kind_of(aborted.error()) == FailureKind::infra);
}

TEST_CASE("the staged form has a row a sibling: prompt and completion, and what made them") {
  rollout_group group = started();
  REQUIRE(append_tokens(group, *tokens_of(0, 2, FinishReason::length)).has_value());
  REQUIRE(append_tokens(group, *tokens_of(1, 1, FinishReason::length)).has_value());
  group.rollouts[1].reward = 0.5F;
  const StageGroupT form = staged_form(group);
  CHECK(form.group == 7);
  CHECK(form.content_attempt == 1);
  REQUIRE(form.siblings.size() == 2);
  CHECK(form.siblings[0]->tokens == std::vector<std::int32_t>{40, 41, 1, 2});
  CHECK(form.siblings[0]->prompt_length == 2);
  CHECK(form.siblings[0]->logprobs.size() == 2);
  CHECK(form.siblings[1]->tokens == std::vector<std::int32_t>{40, 41, 1});
  CHECK(form.siblings[1]->reward == 0.5F);
}

TEST_CASE("a group starts with the stamp of its admission, on weights of at least its version") {
  const rollout_group group = started();
  const StartGroupT start = start_of(group);
  CHECK(start.group == 7);
  CHECK(start.dispatch_index == 4);
  CHECK(start.target_step == 5);
  CHECK(start.admission_version == 3);
  CHECK(start.window == 2);
  CHECK(start_of(group, 9).admission_version == 9); // A pin may be yet to come.
  const GenerateGroupT wanted = generation_of(group, 16, {});
  CHECK(*wanted.sample == SampleId(1, 3));
  CHECK(wanted.content_attempt == 1);
  CHECK(wanted.siblings == 2);
  CHECK(wanted.prompt == group.prompt_tokens);
  CHECK(wanted.max_new_tokens == 16);
  CHECK(wanted.minimum_version == 3);
}

TEST_CASE("a commit bears the stamp that the ledger gave out, not the one of the start") {
  const rollout_group group = started();
  GroupReleasedT answer;
  answer.found = true;
  answer.dispatch_index = 6;
  answer.target_step = 8;
  answer.admission_version = 5;
  answer.window = 1;
  const CommitGroupT commit = commit_of(group, *pack(answer));
  CHECK(commit.group == 7);
  CHECK(commit.content_attempt == 1);
  CHECK(*commit.sample == SampleId(1, 3));
  CHECK(commit.dispatch_index == 6);
  CHECK(commit.target_step == 8);
  CHECK(commit.admission_version == 5);
  CHECK(commit.window == 1);
}

TEST_CASE("abort and discard name the attempt, so that a later one is left alone") {
  const rollout_group group = started();
  CHECK(abort_of(group).group == 7);
  CHECK(abort_of(group).content_attempt == 1);
  CHECK(discard_of(group).group == 7);
  CHECK(discard_of(group).content_attempt == 1);
}

TEST_CASE("a reservation holds who and where from, and no text") {
  prompt_batch batch;
  batch.prompts.push_back(std::move(started().prompt));
  batch.prompts.back().text = "what is 1 + 1?";
  const ReserveGroupsT request = reservation_of(batch, 9, 4);
  CHECK(request.admission == 9);
  REQUIRE(request.groups.size() == 1);
  CHECK(request.groups[0]->group == 7);
  CHECK(*request.groups[0]->sample == SampleId(1, 3));
  CHECK(*request.groups[0]->content_hash == Hash128(10, 20));
  CHECK(request.groups[0]->siblings == 4);
  const auto packed = pack(request);
  const auto bytes = packed.content()->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  CHECK(text.find("1 + 1") == std::string_view::npos);
}

TEST_CASE("only what is the prompt's own fault counts against it") {
  const auto kind = [](errc code) { return failure_kind_of(error{code, "why"}); };
  CHECK(kind(errc::invalid_argument) == FailureKind::data);
  CHECK(kind(errc::unsupported) == FailureKind::data);
  for (const errc code : {errc::timed_out, errc::unavailable, errc::cancelled, errc::corrupt,
                          errc::exhausted, errc::io_failed, errc::internal})
    CHECK(kind(code) == FailureKind::infra);
}

TEST_SUITE_END();
