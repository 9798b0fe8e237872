// Reported faults of dataloaders: where a saved position goes on.
#include "actors/dataloader/dataloader_section.hpp"
#include "tests/regress/observed_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace weir;
using namespace weir::test;

namespace {

dataset numbered(std::uint64_t length, std::uint64_t first = 0) {
  std::string lines;
  for (std::uint64_t i = first; i < first + length; ++i)
    lines += "{\"question\": \"q" + std::to_string(i) + "\", \"answer\": \"a\"}\n";
  auto made = dataset::parse("numbers.jsonl", std::move(lines), {});
  REQUIRE(made.has_value());
  return std::move(*made);
}

constexpr dataloader_options endless{.max_num_epochs = std::nullopt};

std::vector<std::string> take(dataloader_state& state, std::uint64_t count) {
  std::vector<std::string> prompts;
  const auto batch = state.peek(count);
  for (const prompt_record& prompt : batch)
    prompts.push_back(prompt.prompt);
  if (!batch.empty()) REQUIRE(state.reserve(batch.front().group, batch.size()).has_value());
  return prompts;
}

/// Saved as a bundle holds it, and loaded into a new process.
dataloader_state restarted(const dataloader_state& state, std::uint64_t length,
                           dataloader_options options = endless) {
  const auto bytes = encode(state.capture(), {1, 1, 1});
  const auto read = decode_dataloader(bytes);
  REQUIRE(read.has_value());
  dataloader_state next(numbered(length), options);
  REQUIRE(next.load(read->cursor).has_value());
  return next;
}

} // namespace

TEST_SUITE_BEGIN("regress");

TEST_CASE(
    "regress/pytorch-data_1437: a state that is saved at the end of an epoch is what it was") {
  for (const bool noticed : {false, true}) {
    const dataloader_options twice{.max_num_epochs = 2};
    dataloader_state state(numbered(6), twice);
    std::ignore = take(state, 6);
    if (noticed) CHECK(state.peek(1).front().sample == sample_id{1, 0});
    dataloader_state next = restarted(state, 6, twice);
    CHECK(next.capture() == state.capture());
    CHECK(restarted(next, 6, twice).capture() == state.capture());
    CHECK(take(next, 12) == take(state, 12));
    CHECK(next.exhausted());
    // And at the end of the last one, where an empty batch was asked for or not.
    if (noticed) CHECK(next.peek(1).empty());
    CHECK(restarted(next, 6, twice).exhausted());
  }
}

TEST_CASE("regress/pytorch-data_1513: the permutation of epoch 3 goes on at its item 1") {
  dataloader_state state(numbered(20), endless);
  std::ignore = take(state, 61);
  dataloader_state next = restarted(state, 20);
  CHECK(next.peek(1).front().sample == sample_id{3, 1});
  CHECK(take(next, 19) == take(state, 19));
}

TEST_CASE("regress/pytorch-data_1520: what was read ahead and not handed out comes again") {
  dataloader_state state(numbered(20), endless);
  std::ignore = take(state, 4);
  const auto unread = state.peek(8);
  dataloader_state next = restarted(state, 20);
  CHECK(next.peek(8) == unread);
  CHECK(next.next_group() == group_id(4));
}

TEST_CASE("regress/HF-datasets_7447: epochs after a resume in the middle of one are whole") {
  dataloader_state state(numbered(10), endless);
  std::ignore = take(state, 13);
  dataloader_state next = restarted(state, 10);
  CHECK(take(next, 7).size() == 7);
  for (const std::uint64_t epoch : {2U, 3U}) {
    CHECK(next.peek(1).front().sample == sample_id{epoch, 0});
    const auto prompts = take(next, 10);
    CHECK(std::set<std::string>(prompts.begin(), prompts.end()).size() == 10);
  }
}

TEST_CASE("regress/Lightning_5325: a resume at 20 % of an epoch gives the other 80 %") {
  const dataloader_options once{.max_num_epochs = 1};
  dataloader_state state(numbered(50), once);
  const auto before = take(state, 10);
  dataloader_state next = restarted(state, 50, once);
  const auto after = take(next, 50);
  CHECK(after.size() == 40);
  std::set<std::string> seen(before.begin(), before.end());
  seen.insert(after.begin(), after.end());
  CHECK(seen.size() == 50);
}

TEST_CASE("regress/NeMo-RL_2519: another dataset under an old cursor is refused") {
  dataloader_state state(numbered(10), endless);
  std::ignore = take(state, 3);
  const dataloader_cursor saved = state.capture();
  std::string reordered;
  for (int i = 9; i >= 0; --i)
    reordered += "{\"question\": \"q" + std::to_string(i) + "\", \"answer\": \"a\"}\n";
  auto turned = dataset::parse("numbers.jsonl", std::move(reordered), {});
  REQUIRE(turned.has_value());
  for (const dataset& other : {numbered(10, 1), numbered(9), *turned}) {
    dataloader_state next(other, endless);
    const auto loaded = next.load(saved);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().code == errc::conflict);
    CHECK(next.next_group() == group_id(0));
  }
}

TEST_CASE("regress/entrenar_294: no prompt is trained twice in an epoch, with crashes in it") {
  sim::run_plan plan;
  plan.dataset = 12;
  plan.epochs = 3;
  small_run run(plan);
  run.run_clean({{sim::crash_kind::process, 150, std::nullopt, 0},
                 {sim::crash_kind::power, 300, std::nullopt, 5},
                 {sim::crash_kind::process, std::nullopt, 90, 0}});
  CHECK(run.report().crashes == 3);
  // Group ids are epoch x 12 + position: once each is once in every epoch.
  CHECK(run.trained().groups() == all_groups(36));
  CHECK(run.audit().consumed.size() == 36);
}

TEST_SUITE_END();
