// The replay index as a section of a bundle: what it must bring back, and what it must refuse.
#include "actors/replay/replay_state.hpp"
#include "messages/schemas.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace weir;
using namespace weir::testing;

namespace {

constexpr epoch_id some_epoch{.incarnation = 3, .life = 1, .number = 7};

replay_record record_of(std::uint64_t group, std::int64_t batch) {
  return {.group = group_id(group),
          .sample = {.epoch = 1, .position = group},
          .content_attempt = 2,
          .dispatch_index = batch,
          .target_step = batch,
          .admission_version = weight_version(4),
          .window = 1,
          .start_version = weight_version(4),
          .end_version = weight_version(5),
          .claimed_for = -1,
          .rows = rows_of(group_id(group)),
          .hash = content_hash{.low = group * 3, .high = group * 5},
          .task = "sum"};
}

/// Groups 12 to 14 READY or CLAIMED; others consumed or evicted.
replay_image some_image() {
  replay_image image;
  for (const std::uint64_t group : {14U, 12U, 13U})
    image.put(record_of(group, 5));
  replay_record claimed = record_of(9, 4);
  claimed.claimed_for = 4;
  image.put(claimed);
  image.consumed = tally_of_range(group_id(0), 8);
  image.dropped.add(drop_reason::stale, group_id(8));
  return image;
}

std::vector<std::byte> edited(const std::function<void(ReplayMetadataT&)>& edit) {
  const auto bytes = encode(some_image(), some_epoch);
  ReplayMetadataT object;
  flatbuffers::GetRoot<ReplayMetadata>(bytes.data())->UnPackTo(&object);
  edit(object);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(ReplayMetadata::Pack(builder, &object));
  const auto packed = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {packed.begin(), packed.end()};
}

void check_refused(const std::function<void(ReplayMetadataT&)>& edit, const std::string& words) {
  CAPTURE(words);
  const auto decoded = decode_replay(edited(edit));
  REQUIRE_FALSE(decoded.has_value());
  CHECK(decoded.error().text.find("replay_buffer_metadata.fb: ") == 0);
  CHECK(decoded.error().text.find(words) != std::string::npos);
}

replay_state in_order_replay(std::uint64_t capacity) {
  return {policy_of("in_order", 1), {.groups_buffered_max = capacity}};
}

} // namespace

TEST_SUITE("actors/replay_restore") {
  TEST_CASE("a section of format 1 is read, without the hashes that it never had") {
    const auto decoded = decode_replay(edited([](ReplayMetadataT& section) {
      section.format_version = 1;
      for (const auto& group : section.groups)
        group->content_hash.reset();
    }));
    REQUIRE(decoded.has_value());
    CHECK_FALSE(decoded->image.find(group_id(12))->hash.has_value());
  }

  TEST_CASE("a section brings every group and every total back") {
    const replay_image image = some_image();
    const auto decoded = decode_replay(encode(image, some_epoch));
    REQUIRE(decoded.has_value());
    CHECK(decoded->epoch == some_epoch);
    CHECK(in_dispatch_order(decoded->image.index) == in_dispatch_order(image.index));
    CHECK(decoded->image.consumed == image.consumed);
    CHECK(decoded->image.dropped == image.dropped);
    CHECK(decoded->image.ready == image.ready);
    CHECK(decoded->image.claimed == tally_of(group_id(9)));
  }

  TEST_CASE("claimed groups are ready again, keep stamp and rows, and forget the step") {
    replay_state state = in_order_replay(64);
    const auto restored = state.load(some_image());
    REQUIRE(restored.has_value());
    CHECK(restored->ready == 4);
    CHECK(restored->unclaimed == 1);
    state.check_invariants();
    CHECK(state.claimed(4) == 0);
    CHECK(*state.capture().find(group_id(9)) == record_of(9, 4));
    event_log log;
    const auto batch = state.claim(4, weight_version(4), 1, log.stream, 1);
    REQUIRE(batch.has_value());
    REQUIRE(batch->size() == 1);
    CHECK(batch->front().group == group_id(9));
    CHECK(batch->front().rows == rows_of(group_id(9)));
  }

  TEST_CASE("restored groups may overdraw the permits, and nothing starts meanwhile") {
    replay_state state = in_order_replay(3);
    REQUIRE(state.load(some_image()).has_value());
    CHECK(state.permits().overdrawn());
    REQUIRE(state.request_start({.group = group_id(15), .dispatch_index = 5}).has_value());
    CHECK(state.grant_permits().empty());
    event_log log;
    REQUIRE(state.claim(4, weight_version(4), 1, log.stream, 1)->size() == 1);
    CHECK_FALSE(state.permits().overdrawn());
    CHECK(state.grant_permits().empty());
    REQUIRE(state.claim(5, weight_version(5), 3, log.stream, 1)->size() == 3);
    CHECK(state.grant_permits() == ids({15}));
    state.check_invariants();
  }

  TEST_CASE("a group of the open step starts though later ones overdraw the permits") {
    replay_state state = in_order_replay(3);
    REQUIRE(state.load(some_image()).has_value());
    REQUIRE(state.request_start({.group = group_id(8), .dispatch_index = 4, .target_step = 4})
                .has_value());
    REQUIRE(state.request_start({.group = group_id(15), .dispatch_index = 6, .target_step = 6})
                .has_value());
    CHECK(state.grant_permits().empty());
    CHECK(state.grant_due(weight_version(3)).empty());
    CHECK(state.grant_due(weight_version(4)) == ids({8}));
    CHECK(state.grant_due(weight_version(5)).empty());
    CHECK(state.started(group_id(8)));
    CHECK(state.permits().taken() == 5);
    state.check_invariants();
  }

  TEST_CASE("an index is loaded whole, and only into an empty replay") {
    replay_state state = in_order_replay(64);
    REQUIRE(state.load(some_image()).has_value());
    CHECK(state.load(some_image()).error().code == errc::conflict);
    replay_state waiting = in_order_replay(64);
    REQUIRE(waiting.request_start({.group = group_id(15), .dispatch_index = 5}).has_value());
    CHECK(waiting.load(some_image()).error().code == errc::conflict);
    replay_image broken = some_image();
    replay_record rowless = record_of(20, 6);
    rowless.rows.clear();
    broken.put(rowless);
    replay_state fresh = in_order_replay(64);
    CHECK(fresh.load(broken).error().code == errc::corrupt);
    CHECK(fresh.slots() == 0);
    fresh.check_invariants();
  }

  TEST_CASE("an index of no, one, capacity and capacity + 1 groups comes back") {
    for (const std::uint64_t count : {0U, 1U, 8U, 9U}) {
      CAPTURE(count);
      replay_image image;
      for (std::uint64_t group = 0; group < count; ++group)
        image.put(record_of(group, static_cast<std::int64_t>(group)));
      const auto decoded = decode_replay(encode(image, some_epoch));
      REQUIRE(decoded.has_value());
      replay_state state = in_order_replay(8);
      const auto restored = state.load(decoded->image);
      REQUIRE(restored.has_value());
      CHECK(restored->ready == count);
      CHECK(state.permits().overdrawn() == (count == 9));
      state.check_invariants();
    }
  }

  TEST_CASE("a capture is independent of later changes") {
    event_log log;
    replay_state state = in_order_replay(64);
    REQUIRE(state.load(some_image()).has_value());
    const replay_image cut = state.capture();
    const auto bytes = encode(cut, some_epoch);
    REQUIRE(state.claim(5, weight_version(5), 3, log.stream, 1)->size() == 3);
    std::ignore = state.consume(5, log.stream, 1);
    std::ignore = state.evict(weight_version(9), log.stream, 1);
    CHECK(state.capture().index.empty());
    CHECK(encode(cut, some_epoch) == bytes);
    CHECK(cut.index.size() == 4);
  }

  TEST_CASE("sections that contradict themselves are refused with the reason") {
    check_refused([](auto& o) { o.groups[1]->group = o.groups[0]->group; }, "in the index twice");
    check_refused([](auto& o) { o.groups[1]->rows = o.groups[0]->rows; }, "another sibling owns");
    check_refused([](auto& o) { o.groups[1]->rows.clear(); }, "group 12 has no rows");
    check_refused([](auto& o) { o.groups[1]->sample.reset(); }, "has no sample id");
    check_refused([](auto& o) { o.groups[1]->dispatch_index = -1; }, "has no dispatch index");
    check_refused([](auto& o) { o.groups[1]->target_step = -2; }, "negative target step");
    check_refused([](auto& o) { o.groups[1]->claimed_for = -2; }, "negative step");
    check_refused([](auto& o) { o.groups[1]->end_version = 3; }, "ends at older weights");
    check_refused([](auto& o) { o.dropped[0]->reason = static_cast<DropReason>(9); },
                  "unknown reason 9");
    check_refused([](auto& o) { o.dropped[0]->sum.reset(); }, "reason");
    check_refused([](auto& o) { o.consumed_sum.reset(); }, "consumed");
    check_refused([](auto& o) { o.epoch_id.reset(); }, "epoch");
    check_refused([](auto& o) { o.format_version = 3; }, "format 3 is newer than 2");
  }

  TEST_CASE("no prefix of a section loses anything unnoticed, and no flipped bit is a crash") {
    const auto bytes = encode(some_image(), some_epoch);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      CAPTURE(length);
      const auto decoded = decode_replay(std::span(bytes).first(length));
      if (decoded) CHECK(encode(decoded->image, decoded->epoch) == bytes);
    }
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      const auto decoded = decode_replay(flipped);
      if (decoded) CHECK(check_image(decoded->image).has_value());
    }
  }
}
