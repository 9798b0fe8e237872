#include "actors/dataloader/dataloader_state.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace weir;

namespace {

dataset numbered(std::uint64_t length, std::uint64_t first = 0) {
  std::string content;
  for (std::uint64_t index = first; index < first + length; ++index)
    content += "{\"question\": \"q" + std::to_string(index) + "\", \"answer\": \"" +
               std::to_string(index) + "\"}\n";
  auto made = dataset::parse("numbers.jsonl", content, {});
  REQUIRE(made.has_value());
  return std::move(*made);
}

dataloader_state loader(std::uint64_t length, dataloader_options options = {}) {
  return dataloader_state(numbered(length), options);
}

std::vector<std::string> take(dataloader_state& state, std::uint64_t count) {
  std::vector<std::string> prompts;
  const auto batch = state.peek(count);
  for (const prompt_record& prompt : batch)
    prompts.push_back(prompt.prompt);
  if (!batch.empty()) REQUIRE(state.reserve(batch.front().group, batch.size()).has_value());
  return prompts;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr dataloader_options endless{.max_num_epochs = std::nullopt};

} // namespace

TEST_SUITE_BEGIN("actors/dataloader/dataloader_state");

TEST_CASE("an epoch visits every record once, in an order that follows from seed and epoch") {
  for (const std::uint64_t length : {1U, 2U, 3U, 10U, 257U}) {
    dataloader_state state = loader(length, endless);
    std::vector<std::vector<std::string>> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      epochs.push_back(take(state, length));
      const std::set<std::string> distinct(epochs.back().begin(), epochs.back().end());
      CHECK(distinct.size() == length);
    }
    dataloader_state again = loader(length, endless);
    CHECK(take(again, length) == epochs[0]);
    if (length >= 10) CHECK(epochs[0] != epochs[1]);
  }
  dataloader_state one = loader(257, {.shuffle_seed = 1});
  dataloader_state two = loader(257, {.shuffle_seed = 2});
  CHECK(take(one, 257) != take(two, 257));
}

TEST_CASE("the permutation is part of the run's identity and never changes") {
  using order = std::vector<std::uint32_t>;
  CHECK(detail::permutation(42, 0, 10) == order{0, 8, 1, 4, 2, 5, 3, 9, 7, 6});
  CHECK(detail::permutation(42, 1, 10) == order{4, 3, 8, 2, 6, 7, 9, 1, 5, 0});
}

// Each of the 24 orders of four records should come up 10,000 times in 240,000 epochs. The
// statistic has 23 degrees of freedom; 60 is beyond one in 30,000, and the seeds are fixed.
TEST_CASE("every order of a small dataset is equally likely") {
  std::vector<int> seen(256, 0);
  constexpr int draws = 240'000;
  for (std::uint64_t epoch = 0; epoch < draws; ++epoch) {
    const auto order = detail::permutation(7, epoch, 4);
    ++seen[order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3]];
  }
  double statistic = 0;
  int orders = 0;
  for (const int count : seen) {
    if (count == 0) continue;
    ++orders;
    statistic += (count - 10'000.0) * (count - 10'000.0) / 10'000.0;
  }
  CHECK(orders == 24);
  CHECK(statistic < 60.0);
}

TEST_CASE("without shuffling records come in file order, every epoch") {
  dataloader_state state = loader(3, {.shuffle = false, .max_num_epochs = std::nullopt});
  CHECK(take(state, 7) == std::vector<std::string>{"q0", "q1", "q2", "q0", "q1", "q2", "q0"});
}

TEST_CASE("a prompt knows its ordinal, its visit and its content") {
  const dataloader_state state = loader(3, {.shuffle = false, .max_num_epochs = 2});
  const auto batch = state.peek(5);
  REQUIRE(batch.size() == 5);
  CHECK(batch[4].group == group_id(4));
  CHECK(batch[4].sample == sample_id{.epoch = 1, .position = 1});
  CHECK(batch[4].answer == "1");
  CHECK(batch[4].hash == state.records().hash_at(1));
  CHECK(batch[4].task == "train");
}

TEST_CASE("peek does not move, and a batch across an edge goes on into the next epoch") {
  dataloader_state state = loader(5, endless);
  std::ignore = take(state, 3);
  const auto first = state.peek(4);
  CHECK(state.peek(4) == first);
  CHECK(first[1].sample == sample_id{.epoch = 0, .position = 4});
  CHECK(first[2].sample == sample_id{.epoch = 1, .position = 0});
  REQUIRE(state.reserve(group_id(3), 4).has_value());
  CHECK(state.capture().epoch == 1);
  CHECK(state.capture().position == 2);
  CHECK(state.next_group() == group_id(7));
}

TEST_CASE("the last batch of the data is short, then empty") {
  dataloader_state state = loader(5, {.max_num_epochs = 2});
  CHECK(state.remaining() == 10);
  CHECK(take(state, 8).size() == 8);
  CHECK(state.remaining() == 2);
  CHECK(take(state, 8).size() == 2);
  CHECK(state.exhausted());
  CHECK(state.peek(8).empty());
  const auto beyond = state.reserve(group_id(10), 1);
  REQUIRE_FALSE(beyond.has_value());
  CHECK(beyond.error().code == errc::exhausted);
  CHECK(state.reserve(group_id(10), 0).has_value());
  CHECK_FALSE(loader(5, endless).exhausted());
  CHECK(loader(5, {.max_num_epochs = 0}).exhausted());
}

TEST_CASE("a reservation of prompts that are no longer next is refused and changes nothing") {
  dataloader_state state = loader(10, endless);
  std::ignore = take(state, 4);
  const dataloader_cursor before = state.capture();
  for (const std::uint64_t first : {0U, 3U, 5U}) {
    const auto moved = state.reserve(group_id(first), 1);
    REQUIRE_FALSE(moved.has_value());
    CHECK(moved.error().code == errc::conflict);
    CHECK(mentions(moved.error().text, "the dataloader is at 4"));
  }
  CHECK(state.capture() == before);
}

TEST_CASE("what was handed out is counted and summed, whatever the batches were") {
  dataloader_state whole = loader(10, endless);
  dataloader_state parts = loader(10, endless);
  std::ignore = take(whole, 25);
  for (const std::uint64_t count : {1U, 9U, 15U})
    std::ignore = take(parts, count);
  CHECK(whole.handed_out() == parts.handed_out());
  CHECK(whole.handed_out().count == 25);
  group_tally by_hand;
  for (std::uint64_t ordinal = 25; ordinal-- > 0;)
    by_hand.add(group_id(ordinal));
  CHECK(whole.handed_out() == by_hand);
}

TEST_CASE("one lost and one doubled keep the count and change the sum") {
  group_tally right = tally_of_range(group_id(0), 8);
  group_tally wrong = right;
  wrong.remove(group_id(3));
  wrong.add(group_id(5));
  CHECK(wrong.count == right.count);
  CHECK_FALSE(wrong == right);
  wrong.remove(group_id(5));
  wrong.add(group_id(3));
  CHECK(wrong == right);
  CHECK(right - tally_of_range(group_id(2), 6) == tally_of_range(group_id(0), 2));
}

TEST_CASE("a restored loader goes on exactly, wherever it was captured") {
  constexpr std::uint64_t length = 7;
  dataloader_state whole = loader(length, endless);
  const auto all = whole.peek(5 * length);
  for (std::uint64_t captured_at = 0; captured_at <= 4 * length; ++captured_at) {
    CAPTURE(captured_at);
    dataloader_state before = loader(length, endless);
    std::ignore = take(before, captured_at);
    dataloader_state after = loader(length, endless);
    REQUIRE(after.load(before.capture()).has_value());
    CHECK(after.capture() == before.capture());
    const auto next = after.peek(length);
    CHECK(std::equal(next.begin(), next.end(), all.begin() + static_cast<int>(captured_at)));
  }
}

TEST_CASE("an edge of an epoch is the begin of the next one, and restores as such") {
  dataloader_state state = loader(5, {.max_num_epochs = 3});
  std::ignore = take(state, 10);
  CHECK(state.capture().epoch == 2);
  CHECK(state.capture().position == 0);
  dataloader_state restored = loader(5, {.max_num_epochs = 3});
  REQUIRE(restored.load(state.capture()).has_value());
  CHECK(restored.remaining() == 5);
  std::ignore = take(restored, 5);
  dataloader_state ended = loader(5, {.max_num_epochs = 3});
  REQUIRE(ended.load(restored.capture()).has_value());
  CHECK(ended.exhausted());
}

TEST_CASE("a bound on epochs may change on resume, also to one that was passed") {
  dataloader_state state = loader(5, endless);
  std::ignore = take(state, 12);
  dataloader_state lower = loader(5, {.max_num_epochs = 1});
  REQUIRE(lower.load(state.capture()).has_value());
  CHECK(lower.exhausted());
  dataloader_state higher = loader(5, {.max_num_epochs = ~std::uint64_t{0}});
  REQUIRE(higher.load(state.capture()).has_value());
  CHECK_FALSE(higher.exhausted());
  CHECK(higher.peek(3).size() == 3);
}

TEST_CASE("a visit is fetched again by its sample id and verified by its hash") {
  dataloader_state state = loader(50, endless);
  const auto batch = state.peek(120);
  REQUIRE(state.reserve(group_id(0), 120).has_value());
  for (const prompt_record& prompt : batch) {
    const auto fetched = state.fetch(prompt.sample, prompt.hash);
    REQUIRE(fetched.has_value());
    CHECK(*fetched == prompt);
  }
  CHECK(state.fetch({.epoch = 1, .position = 3}, std::nullopt).has_value());
  const auto changed = state.fetch(batch[3].sample, batch[4].hash);
  REQUIRE_FALSE(changed.has_value());
  CHECK(changed.error().code == errc::corrupt);
  CHECK(mentions(changed.error().text, "numbers.jsonl:"));
  CHECK(mentions(changed.error().text, to_string(batch[4].hash)));
  CHECK(state.fetch({.epoch = 0, .position = 50}, std::nullopt).error().code == errc::not_found);
  CHECK(state.fetch({.epoch = ~std::uint64_t{0}, .position = 1}, std::nullopt).error().code ==
        errc::not_found);
}

TEST_CASE("a cursor of another dataset is refused, naming both") {
  dataloader_state saved = loader(10);
  std::ignore = take(saved, 4);
  for (dataset other : {numbered(9), numbered(11), numbered(10, 1)}) {
    dataloader_state state(std::move(other), {});
    const dataloader_cursor before = state.capture();
    const auto loaded = state.load(saved.capture());
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().code == errc::conflict);
    CHECK(mentions(loaded.error().text, "another or reordered dataset"));
    CHECK(mentions(loaded.error().text, to_string(saved.capture().dataset_fingerprint)));
    CHECK(mentions(loaded.error().text, to_string(before.dataset_fingerprint)));
    CHECK(state.capture() == before);
  }
}

TEST_CASE("a cursor of another shuffle is refused, naming both") {
  dataloader_state saved = loader(10);
  const auto reseeded = loader(10, {.shuffle_seed = 43}).load(saved.capture());
  REQUIRE_FALSE(reseeded.has_value());
  CHECK(mentions(reseeded.error().text, "seed 42"));
  CHECK(mentions(reseeded.error().text, "seed 43"));
  CHECK_FALSE(loader(10, {.shuffle = false}).load(saved.capture()).has_value());
  // Without shuffling the seed decides nothing.
  dataloader_state plain = loader(10, {.shuffle = false, .shuffle_seed = 1});
  CHECK(loader(10, {.shuffle = false, .shuffle_seed = 2}).load(plain.capture()).has_value());
}

TEST_CASE("a cursor whose numbers contradict each other is refused") {
  dataloader_state saved = loader(10, endless);
  std::ignore = take(saved, 14);
  const auto refused = [](const dataloader_cursor& cursor) {
    const auto loaded = loader(10, endless).load(cursor);
    return !loaded && loaded.error().code == errc::corrupt;
  };
  dataloader_cursor cursor = saved.capture();
  cursor.ordinal = 15;
  CHECK(refused(cursor));
  cursor = saved.capture();
  cursor.epoch = 0;
  CHECK(refused(cursor));
  cursor = saved.capture();
  cursor.epoch = 0;
  cursor.position = 14;
  CHECK(refused(cursor));
  cursor = saved.capture();
  cursor.handed_out.count = 13;
  CHECK(refused(cursor));
}

TEST_SUITE_END();
