#include "actors/dataloader/dataloader_section.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace weir;

namespace {

constexpr epoch_id epoch{.incarnation = 3, .life = 1, .number = 9};

dataset numbered(std::uint64_t length) {
  std::string lines;
  for (std::uint64_t i = 0; i < length; ++i)
    lines += "{\"question\": \"q" + std::to_string(i) + "\", \"answer\": \"a\"}\n";
  auto made = dataset::parse("numbers.jsonl", std::move(lines), {});
  REQUIRE(made.has_value());
  return std::move(*made);
}

/// A cursor in the second epoch.
dataloader_cursor moved() {
  dataloader_state state(numbered(5), {.shuffle_seed = 11, .max_num_epochs = 3});
  REQUIRE(state.reserve(group_id(0), 7).has_value());
  return state.capture();
}

} // namespace

TEST_SUITE_BEGIN("actors/dataloader/dataloader_section");

TEST_CASE("a cursor and its epoch come back as they were") {
  const auto read = decode_dataloader(encode(moved(), epoch));
  REQUIRE(read.has_value());
  CHECK(read->cursor == moved());
  CHECK(read->epoch == epoch);
  dataloader_state next(numbered(5), {.shuffle_seed = 11, .max_num_epochs = 3});
  REQUIRE(next.load(read->cursor).has_value());
  CHECK(next.next_group() == group_id(7));
  CHECK(next.peek(1).front().sample == sample_id{1, 2});
}

TEST_CASE("every prefix of a section is corrupt, and says which file") {
  const auto bytes = encode(moved(), epoch);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    const auto read = decode_dataloader(std::span(bytes).first(length));
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == errc::corrupt);
    CHECK(read.error().text.starts_with("train_dataloader.fb: "));
  }
}

TEST_CASE("a section with any flipped bit is refused, or a cursor that a loader can judge") {
  const auto bytes = encode(moved(), epoch);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CAPTURE(bit);
    const auto read = decode_dataloader(flipped);
    if (!read) {
      CHECK((read.error().code == errc::corrupt || read.error().code == errc::unsupported));
      CHECK(read.error().text.starts_with("train_dataloader.fb: "));
      continue;
    }
    dataloader_state next(numbered(5), {.shuffle_seed = 11, .max_num_epochs = 3});
    if (next.load(read->cursor)) CHECK(next.capture() == read->cursor);
  }
}

TEST_CASE("a batch across an edge of epochs is one event for each of them") {
  dataloader_state state(numbered(5), {.max_num_epochs = 3});
  REQUIRE(state.reserve(group_id(0), 12).has_value());
  const std::vector<handed_out_event> parts = handed_out_parts(state, group_id(3), 9);
  const std::vector<handed_out_event> expected = {
      {group_id(3), 2, {0, 3}}, {group_id(5), 5, {1, 0}}, {group_id(10), 2, {2, 0}}};
  CHECK(parts == expected);
}

TEST_CASE("a batch within an epoch is one event") {
  dataloader_state state(numbered(5), {});
  REQUIRE(state.reserve(group_id(0), 3).has_value());
  const std::vector<handed_out_event> expected = {{group_id(0), 3, {0, 0}}};
  CHECK(handed_out_parts(state, group_id(0), 3) == expected);
}

TEST_SUITE_END();
