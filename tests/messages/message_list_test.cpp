/// Messages of a program's own schemas, as errors and borders know them.
#include "messages/frame.hpp"
#include "messages/message_list.hpp"
#include "tests/support/death.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

namespace weir {

namespace {

bool verify_probe(flatbuffers::Verifier& verifier) {
  return verifier.VerifyBuffer<Probe>(nullptr);
}

constexpr message_type own_type{17};
constexpr detail::message_entry own_entries[] = {{own_type, "Own", true, false, &verify_probe}};
const detail::message_list own_list(own_entries);

/// A frame of that type. Its table has no fields, as a Probe has none.
frame own_frame() {
  detail::payload_memory memory;
  flatbuffers::FlatBufferBuilder builder(64, &memory);
  builder.Finish(CreateProbe(builder));
  frame sent;
  sent.content = detail::payload_of(own_type, builder);
  return sent;
}

} // namespace

TEST_SUITE("messages/message_list") {
  TEST_CASE("a message of a program has a name, and is mutating as its schema says") {
    CHECK(message_name(own_type) == "Own");
    CHECK(is_mutating(own_type));
    CHECK(message_name(message_type{18}) == "unknown message");
  }

  TEST_CASE("messages of the library are found first, and told from others by the compiler") {
    static_assert(detail::is_of_the_library(message_traits<Probe>::type));
    static_assert(!detail::is_of_the_library(own_type));
    CHECK(detail::find_message(message_traits<Probe>::type)->name == "Probe");
  }

  TEST_CASE("a border verifies a message of a program") {
    std::vector<std::byte> bytes = encode(own_frame());
    const auto read = decode(bytes);
    REQUIRE(read.has_value());
    CHECK(read->type() == own_type);
    bytes.back() = std::byte{0xff};
    bytes[bytes.size() - 64] = std::byte{0xff}; // The offset of the root table.
    CHECK_FALSE(decode(bytes));
  }

  TEST_CASE("two messages of one type end the program at its start") {
    const std::string said = test::death_of([] {
      static constexpr detail::message_entry other[] = {
          {own_type, "Other", false, false, &verify_probe}};
      const detail::message_list list(other);
    });
    CHECK(said.find("messages of two catalogues have different types; rename one") !=
          std::string::npos);
  }
}

} // namespace weir
