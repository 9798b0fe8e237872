#include "actors/audit/event_codec.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace weir {
namespace {

std::string line_of(const event& what) {
  std::string line;
  encode_event(line, incarnation(3), "sampler", sequence_number(17), what);
  REQUIRE(line.back() == '\n');
  line.pop_back();
  return line;
}

event_record record_of(const event& what) {
  return {.incarnation = incarnation(3),
          .owner = "sampler",
          .sequence = sequence_number(17),
          .what = what};
}

group_event full_group_event() {
  return {.group = group_id(12),
          .from = group_state::ready,
          .to = group_state::claimed,
          .reason = event_reason::stale,
          .attempt = 2,
          .sample = sample_id{1, 5},
          .target_step = 5,
          .admission_version = weight_version(4),
          .window = 1,
          .start_version = weight_version(4),
          .end_version = weight_version(5),
          .step = 6,
          .trainer_version = weight_version(7),
          .transaction = 99};
}

cut_event full_cut() {
  cut_event cut{.epoch = {3, 1, 7},
                .owners = {{"sampler", sequence_number(17)}, {"replay", sequence_number(0)}},
                .tallies = {}};
  cut.tallies.handed_out = tally_of_range(group_id(0), 3);
  cut.tallies.of(group_state::ready) = tally_of_range(group_id(0), 2);
  cut.tallies.of(group_state::in_reserve) = tally_of(group_id(2));
  return cut;
}

std::vector<event> examples() {
  return {
      group_event{},
      full_group_event(),
      handed_out_event{.first = group_id(64), .count = 32, .sample = {0, 64}},
      step_finished_event{.step = 11, .version = weight_version(12)},
      full_cut(),
      cut_event{.epoch = {1, 1, 1}, .owners = {}, .tallies = {}},
      published_event{.bundle = "step_12", .epoch = {3, 1, 7}, .parent = ""},
      restored_event{.bundle = "step_12.1", .epoch = {2, 1, 4}},
      incarnation_started_event{.run = "a \"run\"\\ of\n\xc3\xa4\x7f"},
      incarnation_started_event{.run = "r", .terms = generation_terms{.window = 2}},
      incarnation_started_event{
          .run = "r", .terms = generation_terms{.window = 0, .oldest_pin = weight_version(7)}},
      run_finished_event{.reason = finish_reason::steps_reached},
  };
}

} // namespace

TEST_SUITE("actors/audit/event_codec") {
  TEST_CASE("the documented line is the one that is written") {
    CHECK(line_of(full_group_event()) ==
          R"({"i":3,"o":"sampler","n":17,"e":"group","g":12,"f":"ready","t":"claimed",)"
          R"("r":"stale","a":2,"p":[1,5],"ts":5,"av":4,"w":1,"sv":4,"ev":5,"s":6,"v":7,"x":99})");
    CHECK(line_of(group_event{.to = group_state::reserved}) ==
          R"({"i":3,"o":"sampler","n":17,"e":"group","g":0,"f":"none","t":"reserved"})");
    CHECK(line_of(run_finished_event{finish_reason::end_of_data}) ==
          R"({"i":3,"o":"sampler","n":17,"e":"finish","z":"end_of_data"})");
  }

  TEST_CASE("every event comes back as it was written") {
    for (const event& what : examples()) {
      const std::string line = line_of(what);
      CAPTURE(line);
      const auto record = decode_event(line);
      REQUIRE(record.has_value());
      CHECK(*record == record_of(what));
    }
  }

  TEST_CASE("numbers keep all their bits") {
    const auto most = std::numeric_limits<std::uint64_t>::max();
    const event what = group_event{.group = group_id(most),
                                   .to = group_state::reserved,
                                   .attempt = std::numeric_limits<std::uint32_t>::max(),
                                   .sample = sample_id{most, most},
                                   .target_step = std::numeric_limits<std::int64_t>::max()};
    const auto record = decode_event(line_of(what));
    REQUIRE(record.has_value());
    CHECK(record->what == what);
  }

  TEST_CASE("no prefix of a line decodes") {
    for (const event& what : examples()) {
      const std::string line = line_of(what);
      for (std::size_t length = 0; length < line.size(); ++length) {
        const auto record = decode_event(line.substr(0, length));
        REQUIRE_FALSE(record.has_value());
        CHECK(record.error().code == errc::corrupt);
      }
    }
  }

  TEST_CASE("a line that decodes is written the same way again, whatever bit was flipped") {
    for (const event& what : examples()) {
      const std::string line = line_of(what);
      for (std::size_t bit = 0; bit < line.size() * 8; ++bit) {
        std::string flipped = line;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
        const auto record = decode_event(flipped);
        if (!record) continue;
        std::string again;
        encode_event(again, *record);
        CHECK(again == flipped + "\n");
      }
    }
  }

  TEST_CASE("what has another meaning or another form is refused with its column") {
    const auto refusal = [](std::string_view line) {
      const auto record = decode_event(line);
      return record ? std::string("decoded") : record.error().text;
    };
    CHECK(refusal("") == "column 1: expected {\"i\":");
    CHECK(refusal(R"({"i":01,"o":"a","n":1,"e":"start","u":""})") ==
          "column 6: expected a number of 64 bits");
    CHECK(refusal(R"({"i":18446744073709551616,"o":"a","n":1,"e":"start","u":""})") ==
          "column 6: expected a number of 64 bits");
    CHECK(refusal(R"({"i":-1,"o":"a","n":1,"e":"start","u":""})") ==
          "column 6: expected a number of 64 bits");
    CHECK(refusal(R"({"n":1})") == "column 1: expected {\"i\":");
    CHECK(refusal(R"({"i":1,"o":"a","n":1,"e":"begin","u":""})") ==
          "column 27: expected one of group out step cut publish restore start finish");
    CHECK(refusal(R"({"i":1,"o":"a","n":1,"e":"start","u":"","q":1})") == "column 40: expected }");
    CHECK(refusal(R"({"i":1,"o":"a","n":1,"e":"start","u":""} )") ==
          "column 41: expected the end of the line");
    CHECK(refusal(R"({"i":1,"o":"\u0041","n":1,"e":"start","u":""})") ==
          R"(column 19: expected an escape \", \\ or \u00xx)");
    CHECK(refusal(R"({"i":1,"o":"a","n":1,"e":"group","g":1,"f":"none","t":"gone"})") ==
          "column 56: expected one of none reserved admitted ready claimed consumed dropped "
          "in_reserve");
    CHECK(refusal(R"({"i":1,"o":"a","n":1,"e":"group","g":1,"f":"none","t":"reserved","a":0})") ==
          "column 71: expected an attempt of 32 bits; 0 is left out");
    CHECK(refusal(R"({"i":1,"o":"a","n":1,"e":"step","s":9223372036854775808,"v":1})") ==
          "column 56: expected a number of 63 bits");
  }
}

} // namespace weir
