#include "dataplane/manifest.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace weir::dataplane {

namespace {

static_assert(std::is_copy_constructible_v<manifest>);

manifest example() {
  manifest content;
  content.run_id = "arithmetic-1";
  content.epoch = {3, 1, 7};
  content.step = 12;
  content.parent = manifest_parent{"step_11", {11, 12}};
  content.files = {{"data_plane/index.fb", 100, {1, 2}}, {"train_dataloader.fb", 0, {3, 4}}};
  content.owners = {{"dataloader", sequence_number(40)}, {"replay", sequence_number(900)}};
  content.metrics = {{"reward", 0.75}};
  return content;
}

std::vector<std::byte> encoded(const manifest& content) {
  auto bytes = encode_manifest(content);
  REQUIRE(bytes);
  return std::move(*bytes);
}

/// Gives changed bytes a checksum that is right, as another program would.
void seal(std::vector<std::byte>& bytes) {
  const auto covered = std::span(bytes).first(bytes.size() - 16);
  const checksum128 checksum = checksum_of(covered);
  for (std::size_t at = 0; at < 8; ++at) {
    bytes[covered.size() + at] = static_cast<std::byte>(checksum.low >> (8 * at));
    bytes[covered.size() + 8 + at] = static_cast<std::byte>(checksum.high >> (8 * at));
  }
}

} // namespace

TEST_SUITE("dataplane/manifest") {

  TEST_CASE("what was written is read, every field") {
    const auto read = decode_manifest(encoded(example()));
    REQUIRE(read);
    CHECK(*read == example());
  }

  TEST_CASE("a manifest without parent, files, owners and metrics is one too") {
    manifest bare;
    bare.run_id = "r";
    const auto read = decode_manifest(encoded(bare));
    REQUIRE(read);
    CHECK(*read == bare);
    CHECK(!read->parent);
  }

  TEST_CASE("the largest numbers survive") {
    constexpr auto largest = std::numeric_limits<std::uint64_t>::max();
    manifest content = example();
    content.epoch = {largest, largest, largest};
    content.step = largest;
    content.files[0].bytes = largest;
    const auto read = decode_manifest(encoded(content));
    REQUIRE(read);
    CHECK(*read == content);
  }

  TEST_CASE("any flipped bit is corrupt, never anything else") {
    const auto bytes = encoded(example());
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      const auto read = decode_manifest(flipped);
      REQUIRE(!read);
      CHECK(read.error().code == errc::corrupt);
    }
  }

  TEST_CASE("any prefix and any extension is corrupt") {
    const auto bytes = encoded(example());
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const auto read = decode_manifest(std::span(bytes).first(length));
      REQUIRE(!read);
      CHECK(read.error().code == errc::corrupt);
    }
    auto extended = bytes;
    extended.push_back(std::byte{0});
    CHECK(decode_manifest(extended).error().code == errc::corrupt);
  }

  TEST_CASE("an intact manifest of a newer format names both versions") {
    auto bytes = encoded(example());
    bytes[8] = std::byte{2};
    seal(bytes);
    const auto read = decode_manifest(bytes);
    REQUIRE(!read);
    CHECK(read.error().code == errc::unsupported);
    CHECK(read.error().text == "format 2, and this program reads format 1");
  }

  TEST_CASE("damage under a right checksum does not get past the verifier") {
    // Another program's mistake, not the disk's: every byte of the body set to 0xff in turn.
    const auto bytes = encoded(example());
    for (std::size_t at = 16; at + 16 < bytes.size(); ++at) {
      auto changed = bytes;
      changed[at] = std::byte{0xff};
      seal(changed);
      const auto read = decode_manifest(changed);
      if (!read) CHECK(read.error().code == errc::corrupt);
    }
  }

  TEST_CASE("a file outside the bundle is refused when read") {
    auto bytes = encoded(example());
    const std::string path = "train_dataloader.fb";
    const std::string evil = "../../../etc/passwd";
    REQUIRE(path.size() == evil.size());
    const auto* begin = reinterpret_cast<const char*>(bytes.data());
    const auto at = std::string(begin, bytes.size()).find(path);
    REQUIRE(at != std::string::npos);
    for (std::size_t i = 0; i < evil.size(); ++i)
      bytes[at + i] = static_cast<std::byte>(evil[i]);
    seal(bytes);
    const auto read = decode_manifest(bytes);
    REQUIRE(!read);
    CHECK(read.error().text == "names a file outside the bundle: " + evil);
  }

  TEST_CASE("files and metrics are found by name") {
    const manifest content = example();
    REQUIRE(content.find("train_dataloader.fb") != nullptr);
    CHECK(content.find("train_dataloader.fb")->checksum == checksum128{3, 4});
    CHECK(content.find("train_dataloader") == nullptr);
    CHECK(content.metric("reward") == 0.75);
    CHECK(!content.metric("loss"));
  }
}

} // namespace weir::dataplane
