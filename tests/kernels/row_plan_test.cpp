#include "kernels/row_plan.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace weir::kernels;

namespace {

using tokens = std::vector<std::uint32_t>;

sequence make(const tokens& all, std::uint32_t prompt_length) {
  sequence item;
  item.tokens = all;
  item.prompt_length = prompt_length;
  return item;
}

template <class Range>
tokens in_vector(const Range& range) {
  return {range.begin(), range.end()};
}

} // namespace

TEST_SUITE("kernels/row_plan") {
  TEST_CASE("siblings share the rows of their prompt, and no row is made of a last token") {
    const tokens a{1, 2, 10, 11, 12};
    const tokens b{1, 2, 20};
    const tokens c{1, 2, 30, 31};
    const sequence siblings[] = {make(a, 2), make(b, 2), make(c, 2)};
    row_plan plan;
    plan.build(siblings);
    CHECK(in_vector(plan.tokens()) == tokens{1, 2, 10, 11, 30});
    CHECK(in_vector(plan.positions()) == tokens{0, 1, 2, 3, 2});
    CHECK(in_vector(plan.head_rows()) == tokens{1, 2, 3, 4});
    CHECK(plan.longest() == 5);
    REQUIRE(plan.segments().size() == 3);
    CHECK(plan.segments()[0].prefix_rows == 0);
    CHECK(plan.segments()[2].first_row == 4);
    CHECK(plan.segments()[2].prefix_first_row == 0);
    CHECK(plan.segments()[2].prefix_rows == 2);

    tokens predicted, heads;
    for (const prediction& item : plan.predictions()) {
      predicted.push_back(item.token);
      heads.push_back(item.head_row);
    }
    CHECK(predicted == tokens{10, 11, 12, 20, 30, 31});
    CHECK(heads == tokens{0, 1, 2, 0, 0, 3});
    CHECK(plan.predictions()[5].sequence == 2);
    CHECK(plan.predictions()[5].index == 1);
  }

  TEST_CASE("different prompts have rows of their own, also when one begins like the other") {
    const tokens a{1, 2, 3, 9};
    const tokens b{1, 2, 9};
    const sequence sequences[] = {make(a, 3), make(b, 2)};
    row_plan plan;
    plan.build(sequences);
    CHECK(in_vector(plan.tokens()) == tokens{1, 2, 3, 1, 2});
    CHECK(in_vector(plan.head_rows()) == tokens{2, 4});
  }

  TEST_CASE("an empty completion has no rows; a plan can be built again") {
    const tokens a{1, 2};
    const tokens b{3, 4, 5};
    const sequence empty[] = {make(a, 2)};
    const sequence mixed[] = {make(a, 2), make(b, 2)};
    row_plan plan;
    plan.build(mixed);
    CHECK(in_vector(plan.tokens()) == tokens{3, 4});
    CHECK(plan.predictions()[0].sequence == 1);
    plan.build(empty);
    CHECK(plan.rows() == 0);
    CHECK(plan.predictions().empty());
    plan.build({});
    CHECK(plan.rows() == 0);
  }
}
