#include "actors/runtime/detail/reply_memory.hpp"
#include "messages/limits.hpp"
#include "messages/rule.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

using detail::reply_memory;
using verdict = reply_memory::verdict;

lease_stamp stamp(std::uint64_t instance, std::uint64_t transaction, std::uint32_t step) {
  lease_stamp made;
  made.origin = std::make_shared<const std::string>("rollout");
  made.instance = instance;
  made.transaction = transaction;
  made.step = step;
  return made;
}

detail::answer refusal(const char* text) {
  return {nullptr, std::make_shared<const error>(error{errc::conflict, text})};
}

} // namespace

TEST_SUITE("runtime/reply_memory") {
  TEST_CASE("a repeated request is never first again: it waits, then gets the same answer") {
    reply_memory memory;
    detail::answer again;
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 10}, again) == verdict::first);
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 11}, again) == verdict::pending);
    CHECK(memory.admit(stamp(1, 5, 1), {{}, 12}, again) == verdict::first);
    const auto told = memory.settle(stamp(1, 5, 0), refusal("full"));
    REQUIRE(told.size() == 2);
    CHECK(told[0].request_id == 10);
    CHECK(told[1].request_id == 11);
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 13}, again) == verdict::answered);
    CHECK(again.reason->text == "full");
  }

  TEST_CASE("leased_requests_idempotent: without it a repeated request is applied again") {
    const rule_suspension off(rule::leased_requests_idempotent);
    reply_memory memory;
    detail::answer again;
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 10}, again) == verdict::first);
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 11}, again) == verdict::first);
    CHECK(memory.settle(stamp(1, 5, 0), refusal("full")).size() == 2);
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 12}, again) == verdict::first);
    CHECK(memory.settle(stamp(1, 5, 0), refusal("full")).size() == 1);
  }

  TEST_CASE("a newer instance fences the older ones") {
    reply_memory memory;
    detail::answer again;
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 10}, again) == verdict::first);
    CHECK(memory.admit(stamp(2, 5, 0), {{}, 11}, again) == verdict::first);
    CHECK(memory.admit(stamp(1, 6, 0), {{}, 12}, again) == verdict::fenced);
    CHECK(memory.settle(stamp(1, 5, 0), refusal("late")).empty());
  }

  TEST_CASE("a request whose handler was cancelled may be applied by a repetition") {
    reply_memory memory;
    detail::answer again;
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 10}, again) == verdict::first);
    CHECK(memory.forget(stamp(1, 5, 0)).size() == 1);
    CHECK(memory.admit(stamp(1, 5, 0), {{}, 11}, again) == verdict::first);
  }

  TEST_CASE("answers of settled transactions are forgotten, and their duplicates refused") {
    reply_memory memory;
    detail::answer again;
    for (std::uint64_t i = 1; i <= 3; ++i)
      CHECK(memory.admit(stamp(1, i, 0), {{}, i}, again) == verdict::first);
    CHECK(memory.settle(stamp(1, 1, 0), refusal("one")).size() == 1);
    CHECK(memory.settle(stamp(1, 3, 0), refusal("three")).size() == 1);

    lease_stamp next = stamp(1, 4, 0);
    next.settled_before = 3;
    CHECK(memory.admit(next, {{}, 4}, again) == verdict::first);
    CHECK(memory.admit(stamp(1, 1, 0), {{}, 5}, again) == verdict::settled);
    CHECK(memory.admit(stamp(1, 3, 0), {{}, 6}, again) == verdict::answered);
    CHECK(again.reason->text == "three");
    // Under way, though its origin says that it is settled: whoever asked is told still.
    CHECK(memory.settle(stamp(1, 2, 0), refusal("two")).size() == 1);

    // A later stamp never lowers what is known, and a newer instance counts anew.
    CHECK(memory.admit(stamp(1, 2, 1), {{}, 7}, again) == verdict::settled);
    CHECK(memory.admit(stamp(2, 1, 0), {{}, 8}, again) == verdict::first);
  }

  TEST_CASE("memory is bounded: the oldest answers are forgotten") {
    reply_memory memory;
    detail::answer again;
    for (std::uint64_t i = 0; i <= limits::leased_replies_max; ++i) {
      CHECK(memory.admit(stamp(1, i, 0), {{}, i}, again) == verdict::first);
      CHECK(memory.settle(stamp(1, i, 0), refusal("x")).size() == 1);
    }
    CHECK(memory.admit(stamp(1, 1, 0), {{}, 1}, again) == verdict::answered);
    CHECK(memory.admit(stamp(1, 0, 0), {{}, 0}, again) == verdict::first);
  }
}

} // namespace weir::test
