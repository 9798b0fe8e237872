/// What is chosen, and who gets it, without a store.
#include "dataplane/claim_sampler.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

namespace {

struct sketch {
  std::uint64_t row = 0;
  std::int64_t group = 0;
  std::uint64_t tokens = 0;
};

std::vector<claim_candidate> candidates(std::initializer_list<sketch> sketches) {
  std::vector<claim_candidate> list;
  for (const sketch& one : sketches)
    list.push_back({row_id(one.row), one.group, one.tokens});
  return list;
}

std::vector<row_id> rows(std::initializer_list<std::uint64_t> numbers) {
  std::vector<row_id> list;
  for (const std::uint64_t one : numbers)
    list.emplace_back(one);
  return list;
}

claim_sampler sampler_of(const sampler_options& options) {
  auto made = claim_sampler::create(options);
  REQUIRE(made.has_value());
  return *made;
}

/// A sampler that has one batch of rows 1 and 2 for rank 0.
claim_sampler sampler_with_batch(std::size_t readers) {
  claim_sampler made = sampler_of({.batch_rows = 2, .ranks = 2, .readers = readers});
  auto shares = made.choose(0, candidates({{1}, {2}, {3}}), false);
  REQUIRE(shares.has_value());
  CHECK(made.adopt(*shares) == 1);
  return made;
}

} // namespace

TEST_SUITE("dataplane/claim_sampler") {
  TEST_CASE("options that do not fit are refused, by name") {
    const auto refused = [](const sampler_options& options, const std::string& words) {
      const auto made = claim_sampler::create(options);
      REQUIRE_FALSE(made.has_value());
      CHECK(made.error().code == errc::invalid_argument);
      CHECK_MESSAGE(made.error().text.find(words) != std::string::npos, made.error().text);
    };
    refused({.batch_rows = 0}, "at least one row");
    refused({.ranks = 0}, "at least one rank");
    refused({.readers = 0}, "at least one rank");
    refused({.batch_rows = 4, .group_size = 4}, "use complete_groups");
    refused({.kind = sampler_kind::complete_groups, .batch_rows = 6, .group_size = 4},
            "a batch of 6 rows is not a number of groups of 4");
  }

  TEST_CASE("sequential: the first rows, and less than a batch only at the end") {
    const claim_sampler sampler = sampler_of({.batch_rows = 2});
    const auto first = sampler.choose(0, candidates({{4}, {7}, {9}}), false);
    REQUIRE(first.has_value());
    CHECK(first->front().rows == rows({4, 7}));
    CHECK_FALSE(sampler.choose(0, candidates({{4}}), false).has_value());
    CHECK(sampler.choose(0, candidates({{4}}), true)->front().rows == rows({4}));
    CHECK_FALSE(sampler.choose(0, {}, true).has_value());
  }

  TEST_CASE("groups are taken whole, the first that is complete first, wherever its rows are") {
    const claim_sampler sampler =
        sampler_of({.kind = sampler_kind::complete_groups, .batch_rows = 4, .group_size = 2});
    const auto mixed = candidates({{1, 8}, {2, 5}, {3, 6}, {4, 5}, {5, 7}, {6, 6}, {7, 8}});
    CHECK(sampler.choose(0, mixed, false)->front().rows == rows({2, 4, 3, 6}));
    // Rows side by side are no group.
    const auto broken = candidates({{1, 1}, {2, 2}, {3, 2}, {4, 3}});
    CHECK_FALSE(sampler.choose(0, broken, false).has_value());
    CHECK(sampler.choose(0, broken, true)->front().rows == rows({2, 3}));
    CHECK_FALSE(sampler.choose(0, candidates({{1, 1}, {2, 2}}), true).has_value());
  }

  TEST_CASE("balanced: equally many groups for each rank, nearly the same tokens") {
    const claim_sampler sampler = sampler_of(
        {.kind = sampler_kind::token_balanced, .batch_rows = 2, .group_size = 1, .ranks = 2});
    const auto list = candidates({{1, 0, 10}, {2, 0, 90}, {3, 0, 20}, {4, 0, 80}, {5, 0, 1}});
    const auto shares = sampler.choose(1, list, false);
    REQUIRE(shares.has_value());
    REQUIRE(shares->size() == 2);
    // 20 + 80 and 10 + 90; row 5 is not of this batch.
    CHECK((*shares)[0].rows == rows({3, 4}));
    CHECK((*shares)[1].rows == rows({1, 2}));
    // At the end every rank gets one row less, and one row is left.
    const auto last = sampler.choose(0, candidates({{1, 0, 5}, {2, 0, 6}, {3, 0, 7}}), true);
    REQUIRE(last.has_value());
    CHECK((*last)[0].rows.size() == 1);
    CHECK((*last)[1].rows.size() == 1);
    CHECK_FALSE(sampler.choose(0, candidates({{1, 0, 5}}), true).has_value());
  }

  TEST_CASE("balanced groups stay whole") {
    const claim_sampler sampler = sampler_of(
        {.kind = sampler_kind::token_balanced, .batch_rows = 2, .group_size = 2, .ranks = 2});
    const auto list = candidates({{1, 1, 9}, {2, 2, 1}, {3, 1, 9}, {4, 2, 1}});
    const auto shares = sampler.choose(0, list, false);
    REQUIRE(shares.has_value());
    CHECK((*shares)[0].rows == rows({1, 3}));
    CHECK((*shares)[1].rows == rows({2, 4}));
  }

  TEST_CASE("every reader of a rank gets the same batch, and the last one to acknowledge ends it") {
    claim_sampler sampler = sampler_with_batch(2);
    CHECK(sampler.waiting({0, 1})->rows.size() == 2);
    CHECK_FALSE(sampler.waiting({1, 0}).has_value());
    sampler.deliver({0, 0}, 1);
    CHECK_FALSE(sampler.waiting({0, 0}).has_value());
    CHECK(sampler.consumed_by({0, 0}, 1)->empty());
    sampler.acknowledge({0, 0}, 1);
    sampler.check_invariants();
    sampler.deliver({0, 1}, 1);
    CHECK(*sampler.consumed_by({0, 1}, 1) == rows({1, 2}));
    sampler.acknowledge({0, 1}, 1);
    CHECK(sampler.batches().empty());
    CHECK(sampler.consumed_by({0, 1}, 1).error().code == errc::conflict);
  }

  TEST_CASE("a batch that one reader gives back waits for it; one that nobody needs is forgotten") {
    claim_sampler sampler = sampler_with_batch(2);
    sampler.deliver({0, 0}, 1);
    sampler.deliver({0, 1}, 1);
    CHECK_FALSE(sampler.may_come_back({0, 0}));
    CHECK(sampler.may_come_back({1, 0}));
    CHECK(sampler.freed_by({0, 0}, 1)->empty());
    sampler.release({0, 0}, 1);
    CHECK(sampler.waiting({0, 0})->batch == 1);
    CHECK(*sampler.freed_by({0, 1}, 1) == rows({1, 2}));
    sampler.release({0, 1}, 1);
    CHECK(sampler.batches().empty());
    CHECK_FALSE(sampler.waiting({0, 0}).has_value());
  }

  TEST_CASE("a batch that somebody has acknowledged never comes back") {
    claim_sampler sampler = sampler_with_batch(2);
    sampler.deliver({0, 0}, 1);
    sampler.deliver({0, 1}, 1);
    sampler.acknowledge({0, 0}, 1);
    CHECK_FALSE(sampler.may_come_back({1, 0}));
    CHECK(sampler.freed_by({0, 1}, 1)->empty());
    sampler.release({0, 1}, 1);
    CHECK(sampler.waiting({0, 1})->batch == 1);
    CHECK(sampler.forget(1) == rows({1, 2}));
    CHECK(sampler.forget(1).empty());
  }

  TEST_CASE("readers that do not exist, and batches that are not held, are told so") {
    claim_sampler sampler = sampler_with_batch(1);
    CHECK(sampler.check({2, 0}).error().code == errc::invalid_argument);
    CHECK(sampler.check({0, 1}).error().text ==
          "reader 1 of rank 0 does not exist: there are 2 ranks of 1 readers");
    CHECK(sampler.consumed_by({0, 0}, 1).error().code == errc::conflict);
    CHECK(sampler.freed_by({1, 0}, 1).error().code == errc::conflict);
    CHECK(sampler.freed_by({5, 0}, 1).error().code == errc::invalid_argument);
  }
}
