#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <type_traits>

namespace weir {

static_assert(!std::is_convertible_v<std::uint64_t, group_id>, "a number is no id by itself");
static_assert(!std::is_convertible_v<group_id, row_id>, "ids of one kind are not those of another");
static_assert(!std::is_convertible_v<weight_version, std::uint64_t>);

TEST_SUITE("messages/error") {
  TEST_CASE("every class has words of its own, and an unknown one says so") {
    std::set<std::string> words;
    for (int code = 0; code <= static_cast<int>(errc::internal); ++code)
      CHECK(words.emplace(to_string(static_cast<errc>(code))).second);
    CHECK_FALSE(words.contains("unknown error"));
    CHECK(to_string(static_cast<errc>(static_cast<int>(errc::internal) + 1)) == "unknown error");
  }

  TEST_CASE("an error reads: class, text, and who was asked what") {
    error failed{errc::corrupt, "step_12/MANIFEST: checksum differs"};
    CHECK(to_string(failed) == "corrupt: step_12/MANIFEST: checksum differs");
    failed.origin = "replay";
    CHECK(to_string(failed) == "corrupt: step_12/MANIFEST: checksum differs (asked of replay)");
    failed.subject = "CommitGroup";
    CHECK(to_string(failed) ==
          "corrupt: step_12/MANIFEST: checksum differs (asked of replay: CommitGroup)");
    failed.origin.clear();
    CHECK(to_string(failed) == "corrupt: step_12/MANIFEST: checksum differs (asked: CommitGroup)");
  }

  TEST_CASE("a failure carries its error through a result") {
    const auto refuse = []() -> result<int> { return failure(errc::no_space, "the disk is full"); };
    const auto refused = refuse();
    REQUIRE_FALSE(refused);
    CHECK(refused.error() == error{errc::no_space, "the disk is full"});
    const result<void> passed_on = failure(refused.error());
    CHECK(passed_on.error() == refused.error());
  }

  TEST_CASE("epochs are ordered by incarnation, then life, then number") {
    CHECK(epoch_id{1, 9, 9} < epoch_id{2, 0, 0});
    CHECK(epoch_id{1, 1, 9} < epoch_id{1, 2, 0});
    CHECK(epoch_id{1, 1, 1} < epoch_id{1, 1, 2});
    CHECK(to_string(epoch_id{3, 1, 7}) == "3.1.7");
    CHECK(group_id(4).next() == group_id(5));
  }
}

} // namespace weir
