#include "actors/generator/generation_queue.hpp"

#include <doctest/doctest.h>

namespace weir::test {
namespace {

GenerateGroupT group(std::uint64_t number, std::uint32_t siblings = 2,
                     std::uint64_t minimum_version = 0) {
  GenerateGroupT request;
  request.group = number;
  request.siblings = siblings;
  request.minimum_version = minimum_version;
  return request;
}

generated_token token(std::uint64_t tag, std::uint32_t sibling, std::int32_t value,
                      FinishReason finish = FinishReason::unfinished) {
  return {.tag = tag, .sibling = sibling, .token = value, .logprob = -1.0F, .finish = finish};
}

} // namespace

TEST_SUITE("actors/generation_queue") {
  TEST_CASE("groups start in the order they came, and none overtakes one that waits for weights") {
    generation_queue queue;
    const auto first = queue.enqueue(group(7, 2, 3), 8);
    const auto second = queue.enqueue(group(8), 8);
    REQUIRE(first);
    REQUIRE(second);
    CHECK(!queue.next_startable(2));
    CHECK(queue.next_startable(3) == *first);
    queue.started(*first);
    CHECK(queue.was_started(*first));
    CHECK(queue.next_startable(0) == *second);
  }

  TEST_CASE("a group that found no place in the decoder waits before all others") {
    generation_queue queue;
    const auto first = queue.enqueue(group(7), 8);
    std::ignore = queue.enqueue(group(8), 8);
    queue.started(*first);
    queue.postpone(*first);
    CHECK(!queue.was_started(*first));
    CHECK(queue.next_startable(0) == *first);
  }

  TEST_CASE("one too many and one that is here already are refused by number") {
    generation_queue queue;
    REQUIRE(queue.enqueue(group(7), 2));
    const auto again = queue.enqueue(group(7), 2);
    REQUIRE(!again);
    CHECK(again.error().code == errc::already_exists);
    CHECK(again.error().text == "group 7: this attempt is being generated already");
    REQUIRE(queue.enqueue(group(8), 2));
    const auto third = queue.enqueue(group(9), 2);
    REQUIRE(!third);
    CHECK(third.error().code == errc::exhausted);
    CHECK(third.error().text == "group 9: the generator holds 2 groups already");
  }

  TEST_CASE("tokens wait until there are enough, or until a sibling is finished") {
    generation_queue queue;
    const auto tag = queue.enqueue(group(7), 8).value();
    queue.append(token(tag, 0, 10));
    CHECK(queue.deliverable(2).empty());
    queue.append(token(tag, 1, 20));
    CHECK(queue.deliverable(2) == std::vector<std::uint64_t>{tag});
    std::ignore = queue.take(tag);
    CHECK(queue.deliverable(1).empty());
    queue.append(token(tag, 1, 21, FinishReason::stop_token));
    CHECK(queue.deliverable(100) == std::vector<std::uint64_t>{tag});
    CHECK(!queue.complete(tag));
    queue.append(token(tag, 0, 11, FinishReason::stop_token));
    CHECK(queue.complete(tag));
  }

  TEST_CASE("a batch that could not be sent comes again, before what is made later") {
    generation_queue queue;
    const auto tag = queue.enqueue(group(7, 1), 8).value();
    queue.append(token(tag, 0, 10));
    queue.append(token(tag, 0, 11));
    const TokenBatchT unsent = queue.take(tag);
    queue.put_back(tag, unsent);
    queue.append(token(tag, 0, 12, FinishReason::stop_token));
    const TokenBatchT all = queue.take(tag);
    REQUIRE(all.siblings.size() == 1);
    CHECK(all.siblings[0]->tokens == std::vector<std::int32_t>{10, 11, 12});
    CHECK(all.siblings[0]->finish == FinishReason::stop_token);
  }

  TEST_CASE("tokens of a group that was aborted are dropped") {
    generation_queue queue;
    const auto tag = queue.enqueue(group(7), 8).value();
    queue.started(tag);
    queue.remove(tag);
    queue.append(token(tag, 0, 10));
    queue.postpone(tag);
    CHECK(queue.size() == 0);
    CHECK(!queue.next_startable(0));
    CHECK(!queue.find(7, 0));
  }
}

} // namespace weir::test
