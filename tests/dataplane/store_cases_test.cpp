/// The cases that a store must get right, each by its name: what is asked wrongly, twice or too
/// late.
#include "dataplane/store.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

namespace {

constexpr std::uint64_t four_gib = std::uint64_t{1} << 32;
const std::vector<std::string> field = {"value"};

std::vector<row_id> put_rows(store& plane, std::int32_t count) {
  std::vector<row_id> rows;
  for (std::int32_t value = 0; value < count; ++value) {
    const row_input row{.key = {}, .tags = {}, .cells = {scalar_cell("value", value)}};
    const auto ids = plane.put("p", std::span(&row, 1));
    REQUIRE(ids.has_value());
    rows.push_back(ids->front());
  }
  return rows;
}

void check_error(const error& failed, errc code, std::string_view words) {
  CHECK(failed.code == code);
  CHECK_MESSAGE(failed.text.find(words) != std::string::npos, failed.text);
}

/// Bytes that are all zero and take no memory while they are only read.
class empty_bytes {
public:
  explicit empty_bytes(std::uint64_t bytes) : bytes_(bytes) {
    memory_ = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~empty_bytes() { ::munmap(memory_, bytes_); }
  empty_bytes(const empty_bytes&) = delete;
  empty_bytes& operator=(const empty_bytes&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(memory_), bytes_};
  }

private:
  void* memory_ = nullptr;
  std::uint64_t bytes_;
};

row_input wide_row(std::vector<std::uint64_t> shape, std::span<const std::byte> bytes) {
  return {
      .key = {},
      .tags = {},
      .cells = {{.field = "value", .type = dtype::u8, .shape = std::move(shape), .bytes = bytes}}};
}

static_assert(cell_bytes(dtype::u8, std::array{four_gib}) == four_gib);
static_assert(cell_bytes(dtype::i64, std::array{std::uint64_t{1} << 16, std::uint64_t{1} << 13}) ==
              four_gib);

} // namespace

TEST_SUITE("dataplane/store_cases") {
  TEST_CASE("dtype conflict: refused by name, and the field keeps what it had") {
    store plane;
    const auto rows = put_rows(plane, 1);
    const float wrong = 1;
    const row_input row{.key = {}, .tags = {}, .cells = {scalar_cell("value", wrong)}};
    const auto refused = plane.put("p", std::span(&row, 1));
    REQUIRE_FALSE(refused.has_value());
    check_error(refused.error(), errc::invalid_argument, "partition \"p\", new row 0");
    check_error(refused.error(), errc::invalid_argument, "\"value\"");
    CHECK(plane.get("p", rows, field)->columns[0].type == dtype::i32);
    CHECK(plane.stat().committed_rows == 1);
  }

  TEST_CASE("unknown field: an error that names it, not an empty column and not a wait") {
    store plane;
    const auto rows = put_rows(plane, 2);
    const std::vector<std::string> fields = {"value", "advantage"};
    const auto got = plane.get("p", rows, fields);
    REQUIRE_FALSE(got.has_value());
    check_error(got.error(), errc::not_found, "field \"advantage\" was not produced");
  }

  TEST_CASE("unknown row: every verb names it, and no other row changes") {
    store plane;
    auto rows = put_rows(plane, 2);
    rows.emplace_back(99);
    const std::string words = "partition \"p\", row 99";
    check_error(plane.get("p", rows, field).error(), errc::not_found, words);
    check_error(plane.commit("p", std::span(rows).last(1)).error(), errc::not_found, words);
    check_error(plane.claim("p", "c", rows).error(), errc::not_found, words);
    check_error(plane.acknowledge("p", "c", std::span(rows).last(1)).error(), errc::not_found,
                words);
    check_error(plane.release("p", "c", std::span(rows).last(1)).error(), errc::not_found, words);
    check_error(plane.clear("p", rows).error(), errc::not_found, words);
    check_error(plane.tag_values("p", rows, "group").error(), errc::not_found, words);
    check_error(plane.describe("p", rows.back()).error(), errc::not_found, words);
    CHECK(plane.stat().committed_rows == 2);
    CHECK(plane.stat().claims == 0);
  }

  TEST_CASE("double commit: a conflict that leaves the row committed once") {
    store plane;
    const auto rows = put_rows(plane, 1);
    check_error(plane.commit("p", rows).error(), errc::conflict, "row 1 is committed, not staged");
    CHECK(plane.stat().committed_rows == 1);
    CHECK(plane.query("p", {})->size() == 1);
  }

  TEST_CASE("clear during snapshot: the snapshot has the rows, the store does not") {
    store plane;
    const auto rows = put_rows(plane, 3);
    const snapshot before = plane.capture();
    REQUIRE(plane.clear("p", rows).has_value());
    CHECK(plane.stat().live_bytes == 0);
    CHECK(before.live_bytes() == 12);
    store other;
    other.restore(before);
    CHECK(other.get("p", rows, field)->columns[0].values<std::int32_t>(2).front() == 2);
  }

  TEST_CASE("claim after clear: the row does not exist, and the others stay available") {
    store plane;
    const auto rows = put_rows(plane, 2);
    REQUIRE(plane.claim("p", "c", std::span(rows).first(1)).has_value());
    REQUIRE(plane.clear("p", std::span(rows).first(1)).has_value());
    CHECK(plane.stat().claims == 0);
    check_error(plane.claim("p", "c", rows).error(), errc::not_found, "row 1 does not exist");
    check_error(plane.acknowledge("p", "c", std::span(rows).first(1)).error(), errc::not_found,
                "row 1 does not exist");
    REQUIRE(plane.claim("p", "c", std::span(rows).last(1)).has_value());
  }

  TEST_CASE("capacity exceeded: refused with the numbers, and room again after a clear") {
    store plane({.segment_bytes = 64, .capacity_bytes = 12, .high_water_bytes = 8});
    const auto rows = put_rows(plane, 2);
    const std::int32_t value = 7;
    const row_input row{.key = {}, .tags = {}, .cells = {scalar_cell("value", value)}};
    const auto refused = plane.put("p", std::span(&row, 1));
    REQUIRE_FALSE(refused.has_value());
    check_error(refused.error(), errc::exhausted, "4 bytes more than the 8 live ones");
    CHECK(plane.stat().stages_refused == 1);
    REQUIRE(plane.clear("p", std::span(rows).first(1)).has_value());
    CHECK(plane.put("p", std::span(&row, 1)).has_value());
  }

  TEST_CASE("a field of 2^32 bytes is counted as such, never as one of none") {
    store plane({.capacity_bytes = four_gib - 1, .high_water_bytes = four_gib - 1});
    const empty_bytes zeros(four_gib);
    // No shape of 2^32 elements passes for a value without bytes, nor the other way round.
    const row_input hollow = wide_row({four_gib}, {});
    check_error(plane.put("p", std::span(&hollow, 1)).error(), errc::invalid_argument,
                "has 0 bytes, its shape makes 4294967296");
    const row_input shapeless = wide_row({0}, zeros.bytes());
    check_error(plane.put("p", std::span(&shapeless, 1)).error(), errc::invalid_argument,
                "has 4294967296 bytes, its shape makes 0");
    const row_input whole = wide_row({1U << 16U, 1U << 16U}, zeros.bytes());
    check_error(plane.put("p", std::span(&whole, 1)).error(), errc::exhausted, "4294967296 bytes");
    CHECK(plane.stat().live_bytes == 0);
    CHECK(plane.stat().segments == 0);
  }

  // Takes 4 GiB of memory: by hand, with --no-skip.
  TEST_CASE("a field of 2^32 bytes is read back whole" * doctest::skip()) {
    store plane({.capacity_bytes = 4 * four_gib, .high_water_bytes = 4 * four_gib});
    const empty_bytes zeros(four_gib);
    const std::uint8_t last = 9;
    row_input rows[] = {wide_row({four_gib}, zeros.bytes()),
                        wide_row({1}, std::as_bytes(std::span(&last, 1)))};
    const auto ids = plane.put("p", rows);
    REQUIRE(ids.has_value());
    const auto got = plane.get("p", std::span(*ids).first(1), field);
    REQUIRE(got.has_value());
    CHECK(got->columns[0].zero_copy);
    CHECK(got->columns[0].offsets.back() == four_gib);
    CHECK(got->columns[0].values<std::uint8_t>().back() == 0);
    CHECK(
        plane.get("p", std::span(*ids).last(1), field)->columns[0].values<std::uint8_t>().front() ==
        9);
    plane.check_invariants();
  }
}
