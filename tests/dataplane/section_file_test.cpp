#include "dataplane/section_file.hpp"
#include "dataplane/segment.hpp"
#include "tests/support/crash_disk.hpp"
#include "tests/support/forwarding_disk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace weir::dataplane {

namespace {

constexpr epoch_id epoch{3, 1, 7};

std::vector<std::byte> section_of(const std::string& payload) {
  auto bytes = encode_section_header({epoch, payload.size()});
  const auto content = std::as_bytes(std::span(payload));
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

/// Notes how long the appends to its files are.
class noting_disk final : public test::forwarding_disk {
public:
  using forwarding_disk::forwarding_disk;
  file_result create(const std::string& path) override {
    auto made = forwarding_disk::create(path);
    if (!made) return made;
    return std::make_unique<noting_file>(std::move(*made), appends);
  }
  std::vector<std::size_t> appends;

private:
  class noting_file final : public test::forwarding_file {
  public:
    noting_file(std::unique_ptr<file> inner, std::vector<std::size_t>& appends)
        : forwarding_file(std::move(inner)), appends_(appends) {}
    result<void> append(std::span<const std::byte> bytes) override {
      appends_.push_back(bytes.size());
      return forwarding_file::append(bytes);
    }

  private:
    std::vector<std::size_t>& appends_;
  };
};

} // namespace

TEST_SUITE("dataplane/section_file") {

  TEST_CASE("long memory that lies as its place does is handed on in long pieces; all is paced") {
    constexpr std::size_t mebi = std::size_t{1} << 20, kibi = 1024;
    test::crash_disk inner;
    noting_disk storage(inner);
    REQUIRE(storage.make_directory("/b"));
    const auto memory = segment::allocate(9 * mebi);
    const auto bytes = memory->bytes(0, 9 * mebi);
    std::uint64_t paced = 0, longest = 0;
    const write_pace pace = [&](std::uint64_t count) -> result<void> {
      paced += count;
      longest = std::max(longest, count);
      return {};
    };
    auto section = section_file::create(storage, "/b", "a", epoch, pace);
    REQUIRE(section);
    REQUIRE(section->append(bytes.first(512)));
    REQUIRE(section->append(bytes));
    CHECK(storage.appends == std::vector<std::size_t>{512, 4 * mebi, 4 * mebi, mebi});
    CHECK(paced == 9 * mebi + 512);
    CHECK(longest == 256 * kibi);
    storage.appends.clear();
    REQUIRE(section->append(bytes.subspan(64, mebi))); // It would have to be copied.
    CHECK(storage.appends == std::vector<std::size_t>(4, 256 * kibi));
    CHECK(paced == 10 * mebi + 512);
    const auto finished = section->finish();
    REQUIRE(finished);
    const auto read = read_file(storage, "/b/a", 11 * mebi);
    REQUIRE(read);
    CHECK(checksum_of(*read) == finished->file.checksum);
  }

  TEST_CASE("a pace that fails ends the writing") {
    test::crash_disk storage;
    REQUIRE(storage.make_directory("/b"));
    const write_pace pace = [](std::uint64_t) -> result<void> {
      return failure(errc::cancelled, "enough");
    };
    const std::vector<std::byte> some(10);
    CHECK(write_section(storage, "/b", "a", epoch, some, pace).error().text == "enough");
  }

  TEST_CASE("a finished section tells its size, checksum and epoch") {
    test::crash_disk storage;
    REQUIRE(storage.make_directory("/b"));
    auto section = section_file::create(storage, "/b", "policy/weights/a.bin", epoch);
    REQUIRE(section);
    const std::string text = "some bytes";
    REQUIRE(section->append(std::as_bytes(std::span(text)).first(4)));
    REQUIRE(section->append(std::as_bytes(std::span(text)).subspan(4)));
    CHECK(section->bytes() == 10);
    const auto finished = section->finish();
    REQUIRE(finished);
    CHECK(finished->file ==
          manifest_file{"policy/weights/a.bin", 10, checksum_of(std::as_bytes(std::span(text)))});
    CHECK(finished->epoch == epoch);
  }

  TEST_CASE("a framed section is read back by its epoch only") {
    test::crash_disk storage;
    REQUIRE(storage.make_directory("/b"));
    const std::string text = "ledger";
    REQUIRE(write_section(storage, "/b", "ledger.fb", epoch, std::as_bytes(std::span(text))));
    const auto bytes = read_file(storage, "/b/ledger.fb", 1000);
    REQUIRE(bytes);
    CHECK(*bytes == section_of(text));
    const auto payload = section_payload(*bytes, epoch);
    REQUIRE(payload);
    CHECK(payload->size() == 6);
    const auto foreign = section_payload(*bytes, {3, 1, 8});
    REQUIRE(!foreign);
    CHECK(foreign.error().text == "belongs to the cut 3.1.7, and the bundle to 3.1.8");
  }

  TEST_CASE("every prefix, and every flipped bit of the header, is refused") {
    const auto bytes = section_of("x");
    for (std::size_t length = 0; length < bytes.size(); ++length)
      CHECK(section_payload(std::span(bytes).first(length), epoch).error().code == errc::corrupt);
    for (std::size_t bit = 0; bit < 8 * section_header_bytes; ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      CHECK(section_payload(flipped, epoch).error().code == errc::corrupt);
    }
  }

  TEST_CASE("an intact header of a newer format names both versions") {
    auto bytes = section_of("x");
    bytes[8] = std::byte{2};
    const checksum128 checksum = checksum_of(std::span(bytes).first(48));
    for (std::size_t at = 0; at < 8; ++at) {
      bytes[48 + at] = static_cast<std::byte>(checksum.low >> (8 * at));
      bytes[56 + at] = static_cast<std::byte>(checksum.high >> (8 * at));
    }
    const auto read = section_payload(bytes, epoch);
    REQUIRE(!read);
    CHECK(read.error().code == errc::unsupported);
    CHECK(read.error().text == "section format 2, and this program reads format 1");
  }

  TEST_CASE("files that are not of our encoding have no header") {
    CHECK(has_section_header(section_of("x")));
    const std::string json = "{\"step\": 12}";
    CHECK(!has_section_header(std::as_bytes(std::span(json))));
    CHECK(!has_section_header({}));
  }
}

} // namespace weir::dataplane
