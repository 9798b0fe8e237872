#include "messages/catalogue_generated.hpp"
#include "messages/frame.hpp"
#include "messages/limits.hpp"
#include "messages/message.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir {

namespace {

using byte_string = std::vector<std::byte>;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// A leased request with everything that a frame can carry.
frame full_frame() {
  CommitGroupT commit;
  commit.group = 17;
  commit.content_attempt = 2;
  frame sent;
  sent.header.request_id = 5;
  sent.header.trace_id = 6;
  sent.header.deadline_ns = -7;
  sent.header.life = incarnation(3);
  sent.header.sender = std::make_shared<const std::string>("rollout");
  sent.header.lease = {std::make_shared<const std::string>("rollout"), 8, 9, 10, {3, 1, 4}, 5};
  const std::string large(100, 'x');
  sent.content = pack(commit, {copy_attachment(bytes_of("short")), copy_attachment({}),
                               copy_attachment(bytes_of(large))})
                     .content();
  return sent;
}

/// The smallest: a note without a sender.
frame plain_frame() {
  AbortGroupT abort;
  abort.group = 4;
  frame sent;
  sent.content = pack(abort).content();
  return sent;
}

bool same_bytes(std::span<const std::byte> one, std::span<const std::byte> two) {
  return one.size() == two.size() && std::memcmp(one.data(), two.data(), one.size()) == 0;
}

/// Overwrites a little-endian field of the header.
template <class Number>
byte_string with_field(byte_string bytes, std::size_t offset, Number value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

} // namespace

TEST_SUITE("messages/frame") {
  TEST_CASE("a frame is read as it was written, lease and attachments included") {
    const frame sent = full_frame();
    const auto read = decode(encode(sent));
    REQUIRE(read);
    CHECK(read->type() == message_traits<CommitGroup>::type);
    CHECK(read->header.request_id == 5);
    CHECK(read->header.trace_id == 6);
    CHECK(read->header.deadline_ns == -7);
    CHECK(read->header.life == incarnation(3));
    CHECK_FALSE(read->header.is_reply);
    CHECK(*read->header.sender == "rollout");
    REQUIRE(read->header.lease.present());
    CHECK(*read->header.lease.origin == "rollout");
    CHECK(read->header.lease.instance == 8);
    CHECK(read->header.lease.transaction == 9);
    CHECK(read->header.lease.step == 10);
    CHECK(read->header.lease.epoch == epoch_id{3, 1, 4});
    CHECK(read->header.lease.settled_before == 5);
    const auto viewed = view_as<CommitGroup>(read->content);
    REQUIRE(viewed);
    CHECK((*viewed)->group() == 17);
    CHECK((*viewed)->content_attempt() == 2);
    REQUIRE(read->content->attachments().size() == 3);
    CHECK(same_bytes(read->content->attachments()[0].bytes, bytes_of("short")));
    CHECK(read->content->attachments()[1].bytes.empty());
    CHECK(same_bytes(read->content->attachments()[2].bytes, bytes_of(std::string(100, 'x'))));
  }

  TEST_CASE("a frame without sender, lease or attachment is read as it was written") {
    frame sent = plain_frame();
    sent.header.is_reply = true;
    const auto read = decode(encode(sent));
    REQUIRE(read);
    CHECK(read->header.is_reply);
    CHECK_FALSE(read->header.lease.present());
    CHECK(read->header.sender->empty());
    CHECK(message<AbortGroup>(read->content)->group() == 4);
  }

  TEST_CASE("parts are padded to the alignment of tensors") {
    const byte_string bytes = encode(full_frame());
    CHECK(bytes.size() % limits::tensor_alignment_bytes == 0);
    const auto read = decode(bytes);
    REQUIRE(read);
    for (const attachment& part : read->content->attachments())
      CHECK(reinterpret_cast<std::uintptr_t>(part.bytes.data()) % limits::tensor_alignment_bytes ==
            0);
  }

  TEST_CASE("no prefix of a frame is a frame, nor is a frame with more behind it") {
    for (const frame& sent : {full_frame(), plain_frame()}) {
      byte_string bytes = encode(sent);
      for (std::size_t count = 0; count < bytes.size(); ++count) {
        CAPTURE(count);
        const auto read = decode(std::span(bytes).first(count));
        REQUIRE_FALSE(read);
        CHECK(read.error().code == errc::corrupt);
      }
      bytes.push_back(std::byte{0});
      CHECK_FALSE(decode(bytes));
    }
  }

  TEST_CASE("a flipped bit is refused, or changes the fields that it lies in and no others") {
    for (const frame& sent : {full_frame(), plain_frame()}) {
      const byte_string bytes = encode(sent);
      for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        CAPTURE(bit);
        byte_string flipped = bytes;
        flipped[bit / 8] ^= std::byte(1U << (bit % 8));
        const auto read = decode(flipped);
        if (!read) {
          const bool is_known =
              read.error().code == errc::corrupt || read.error().code == errc::unsupported;
          CHECK(is_known);
          CHECK_FALSE(read.error().text.empty());
          continue;
        }
        // What was accepted can be used: every field is in bounds, and it can be sent again.
        CHECK_FALSE(message_name(read->type()).empty());
        CHECK(decode(encode(*read)).has_value());
      }
    }
  }

  TEST_CASE("what a header declares is bounded before anything is allocated for it") {
    const byte_string bytes = encode(plain_frame());
    constexpr std::size_t attachments_at = 12;
    constexpr std::size_t reply_at = 48;
    constexpr std::size_t leased_at = 49;
    constexpr std::size_t zero_at = 50;
    constexpr std::size_t sender_at = 52;
    constexpr std::size_t origin_at = 56;
    constexpr std::size_t payload_at = 112;
    CHECK_FALSE(decode(with_field(bytes, attachments_at, std::uint32_t{5000})));
    CHECK_FALSE(decode(with_field(bytes, attachments_at, std::uint32_t{1})));
    CHECK_FALSE(decode(with_field(bytes, reply_at, std::uint8_t{2})));
    CHECK_FALSE(decode(with_field(bytes, leased_at, std::uint8_t{2})));
    CHECK_FALSE(decode(with_field(bytes, zero_at, std::uint16_t{1})));
    CHECK_FALSE(decode(with_field(bytes, sender_at, std::uint32_t{0xffffffff})));
    CHECK_FALSE(decode(with_field(bytes, origin_at, std::uint32_t{1}))); // And no lease.
    for (const std::uint64_t size : {std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0} - 63,
                                     std::uint64_t{limits::payload_bytes_max} + 1})
      CHECK_FALSE(decode(with_field(bytes, payload_at, size)));
  }

  TEST_CASE("a newer wire version is unsupported, naming both") {
    const auto read = decode(with_field(encode(plain_frame()), 4, std::uint32_t{3}));
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::unsupported);
    CHECK(read.error().text == "frame: wire version 3, this build speaks 2");
  }

  TEST_CASE("a type that no schema declares is unsupported") {
    const auto read = decode(with_field(encode(plain_frame()), 8, std::uint32_t{1}));
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::unsupported);
    CHECK(read.error().text == "frame: message type 1 is not declared");
    CHECK(message_name(message_type{1}) == "unknown message");
    CHECK_FALSE(is_mutating(message_type{1}));
  }

  TEST_CASE("a payload of one type is not read as another") {
    const frame sent = plain_frame();
    const auto wrong = view_as<CommitGroup>(sent.content);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code == errc::conflict);
    CHECK(wrong.error().text == "expected CommitGroup, got AbortGroup");
    const auto read =
        decode(with_field(encode(full_frame()), 8, message_traits<TokenBatch>::type.value));
    if (read) CHECK(read->type() == message_traits<TokenBatch>::type);
  }

  TEST_CASE("an attachment is kept by its owner for as long as anything holds it") {
    const auto owner = std::make_shared<std::array<std::byte, 64>>();
    const std::weak_ptr<std::array<std::byte, 64>> watched = owner;
    AbortGroupT abort;
    auto held = std::make_unique<message<AbortGroup>>(pack(abort, {attachment{owner, *owner}}));
    message<AbortGroup> copy = *held;
    held.reset();
    CHECK(copy.attachments().size() == 1);
    CHECK(watched.use_count() == 2);
  }
}

} // namespace weir
