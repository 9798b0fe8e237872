/// Texts and opaque bytes as fields, and what counts as a text.
#include "dataplane/index_file.hpp"
#include "dataplane/store.hpp"
#include "tests/dataplane/snapshot_fixture.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace weir::dataplane {

namespace {

bool is_text(std::string_view text) {
  return is_utf8(std::as_bytes(std::span(text)));
}

result<std::vector<row_id>> put_one(store& plane, cell_input cell) {
  const row_input row{.key = {}, .tags = {}, .cells = {std::move(cell)}};
  return plane.put("notes", std::span(&row, 1));
}

} // namespace

TEST_SUITE("dataplane/text") {
  TEST_CASE("UTF-8 is what the standard says") {
    for (const std::string_view good : {"", "weir", "w\xc3\xa9ir", "\xe2\x82\xac",
                                        "\xf0\x9f\x8c\x8a", "\xf4\x8f\xbf\xbf", "\x7f"})
      CHECK(is_text(good));
    for (const std::string_view bad :
         {"\x80", "\xc3", "\xc3(", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
          "\xf0\x80\x80\xaf", "\xff", "\xe2\x82", "\xf8\x88\x80\x80\x80"})
      CHECK_FALSE(is_text(bad));
  }

  TEST_CASE("a text and bytes come back as they went in, empty ones too") {
    store plane;
    const std::vector<std::string> texts{"first", "", "w\xc3\xa9ir", std::string("with\0zero", 9)};
    std::vector<row_id> ids;
    for (const std::string& text : texts) {
      const auto blob = std::as_bytes(std::span(text));
      const row_input row{
          .key = {}, .tags = {}, .cells = {text_cell("text", text), bytes_cell("blob", blob)}};
      const auto put = plane.put("notes", std::span(&row, 1));
      REQUIRE(put.has_value());
      ids.push_back(put->front());
    }
    const std::vector<std::string> fields{"text", "blob"};
    const auto got = plane.get("notes", ids, fields);
    REQUIRE(got.has_value());
    for (std::size_t row = 0; row < texts.size(); ++row) {
      CHECK(got->columns[0].text(row) == texts[row]);
      const auto blob = got->columns[1].blob(row);
      CHECK(std::string(reinterpret_cast<const char*>(blob.data()), blob.size()) == texts[row]);
    }
  }

  TEST_CASE("what is no UTF-8 is refused as text, taken as bytes, and changes nothing") {
    store plane;
    const std::string_view broken = "\xc3(";
    const auto refused = put_one(plane, text_cell("text", broken));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::invalid_argument);
    CHECK(refused.error().text.find("field \"text\" is not UTF-8") != std::string::npos);
    CHECK(plane.stat().committed_rows == 0);
    CHECK(put_one(plane, bytes_cell("blob", std::as_bytes(std::span(broken)))).has_value());
  }

  TEST_CASE("a text has one dimension, and a field that is a text stays one") {
    store plane;
    cell_input square = text_cell("text", "abcd");
    square.shape = {2, 2};
    const auto refused = put_one(plane, square);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().text.find("has 2 dimensions; utf8 has one") != std::string::npos);
    REQUIRE(put_one(plane, text_cell("text", "abcd")).has_value());
    CHECK_FALSE(put_one(plane, bytes_cell("text", {})).has_value());
  }

  TEST_CASE("texts survive a bundle") {
    store plane;
    REQUIRE(put_one(plane, text_cell("text", "w\xc3\xa9ir")).has_value());
    weir::test::crash_disk storage;
    fixture::write_to(storage, plane.capture());
    const snapshot read = fixture::read_from(storage);
    fixture::check_equal(plane.capture(), read);
    CHECK(plane.capture().inventory()[0].rows[0].fields[0].type == dtype::utf8);
  }

  TEST_CASE("a file of format 1 has neither texts nor bytes") {
    CHECK_FALSE(dtype_from(8, 1).has_value());
    CHECK_FALSE(dtype_from(9, 1).has_value());
    CHECK(dtype_from(8, 2) == dtype::bytes);
    CHECK(dtype_from(9, 2) == dtype::utf8);
    CHECK_FALSE(dtype_from(10, 2).has_value());
    CHECK(segment_format_version == 2);
    CHECK(index_format_version == 2);
  }
}

} // namespace weir::dataplane
