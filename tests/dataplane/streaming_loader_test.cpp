/// The loader over a store: what a caller sees, and what is left of it in the store.
#include "dataplane/streaming_loader.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

namespace {

/// A row whose value is its number, in a group, with tokens.
row_id put_row(store& plane, std::int32_t value, std::int64_t group = 0, std::int64_t tokens = 1) {
  row_input row;
  row.tags = {{"group", group}, {"tokens", tokens}};
  row.cells = {scalar_cell("value", value)};
  const auto ids = plane.put("train", std::span(&row, 1));
  REQUIRE(ids.has_value());
  return ids->front();
}

void put_rows(store& plane, std::int32_t first, std::int32_t last) {
  for (std::int32_t value = first; value <= last; ++value)
    put_row(plane, value);
}

loader_options options_of(const sampler_options& sampler) {
  return {.partition = "train",
          .consumer = "trainer",
          .fields = {"value"},
          .tags = {},
          .group_tag = "group",
          .tokens_tag = "tokens",
          .sampler = sampler};
}

std::unique_ptr<streaming_loader> loader_of(store& plane, const sampler_options& sampler) {
  auto made = streaming_loader::create(plane, options_of(sampler));
  REQUIRE(made.has_value());
  return std::move(*made);
}

template <class Answer>
Answer answer_of(streaming_loader& loader, reader_id who = {}) {
  auto answer = loader.next(who);
  REQUIRE(answer.has_value());
  auto* wanted = std::get_if<Answer>(&*answer);
  REQUIRE(wanted != nullptr);
  loader.check_invariants();
  return std::move(*wanted);
}

std::vector<std::int32_t> values_of(const loaded_batch& loaded) {
  const auto values = loaded.values.columns.front().values<std::int32_t>();
  return {values.begin(), values.end()};
}

using numbers = std::vector<std::int32_t>;

} // namespace

TEST_SUITE("dataplane/streaming_loader") {
  TEST_CASE(
      "batches come in order; claimed, then consumed; the end comes with the producer's word") {
    store plane;
    const auto loader = loader_of(plane, {.batch_rows = 2});
    CHECK(answer_of<not_yet>(*loader).rows_available == 0);
    put_rows(plane, 1, 3);
    const loaded_batch first = answer_of<loaded_batch>(*loader);
    CHECK(values_of(first) == numbers{1, 2});
    CHECK(plane.stat().claims == 2);
    CHECK(answer_of<not_yet>(*loader).rows_available == 1);
    REQUIRE(loader->acknowledge(first.number).has_value());
    CHECK(plane.stat().claims == 0);
    loader->finish();
    const loaded_batch last = answer_of<loaded_batch>(*loader);
    CHECK(values_of(last) == numbers{3});
    CHECK(answer_of<finished>(*loader).rows_left == 0);
    REQUIRE(loader->acknowledge(last.number).has_value());
    CHECK(answer_of<finished>(*loader).rows_left == 0);
  }

  TEST_CASE("what was released comes again, and what a dropped loader held is available") {
    store plane;
    put_rows(plane, 1, 4);
    auto loader = loader_of(plane, {.batch_rows = 2});
    const loaded_batch first = answer_of<loaded_batch>(*loader);
    const loaded_batch second = answer_of<loaded_batch>(*loader);
    REQUIRE(loader->release(first.number).has_value());
    CHECK(values_of(answer_of<loaded_batch>(*loader)) == numbers{1, 2});
    REQUIRE(loader->acknowledge(second.number).has_value());
    CHECK(loader->release(second.number).error().code == errc::conflict);
    CHECK(plane.stat().claims == 2);
    loader.reset();
    CHECK(plane.stat().claims == 0);
    loader = loader_of(plane, {.batch_rows = 2});
    CHECK(values_of(answer_of<loaded_batch>(*loader)) == numbers{1, 2});
    CHECK(answer_of<not_yet>(*loader).rows_available == 0);
  }

  TEST_CASE("a reader that died is given the very rows that its peers got") {
    store plane;
    put_rows(plane, 1, 4);
    const auto loader = loader_of(plane, {.batch_rows = 2, .ranks = 2, .readers = 2});
    const loaded_batch first = answer_of<loaded_batch>(*loader, {0, 0});
    CHECK(values_of(answer_of<loaded_batch>(*loader, {1, 0})) == numbers{3, 4});
    CHECK(values_of(answer_of<loaded_batch>(*loader, {0, 1})) == numbers{1, 2});
    REQUIRE(loader->acknowledge(first.number, {0, 0}).has_value());
    CHECK(*loader->release_held({0, 1}) == 1);
    CHECK(plane.stat().claims == 4);
    CHECK(values_of(answer_of<loaded_batch>(*loader, {0, 1})) == numbers{1, 2});
    REQUIRE(loader->acknowledge(first.number, {0, 1}).has_value());
    CHECK(plane.stat().claims == 2);
    CHECK(loader->next({2, 0}).error().code == errc::invalid_argument);
  }

  TEST_CASE("groups that are incomplete stay where they are, and are counted at the end") {
    store plane;
    put_row(plane, 1, 10);
    put_row(plane, 2, 20);
    put_row(plane, 3, 20);
    const auto loader =
        loader_of(plane, {.kind = sampler_kind::complete_groups, .batch_rows = 4, .group_size = 2});
    CHECK(answer_of<not_yet>(*loader).rows_available == 3);
    put_row(plane, 4, 30);
    put_row(plane, 5, 10);
    CHECK(values_of(answer_of<loaded_batch>(*loader)) == numbers{2, 3, 1, 5});
    loader->finish();
    CHECK(answer_of<finished>(*loader).rows_left == 1);
  }

  TEST_CASE("a group is found however far its rows are apart") {
    store plane;
    put_row(plane, 0, -1);
    for (std::int32_t value = 1; value < 500; ++value)
      put_row(plane, value, value);
    put_row(plane, 500, -1);
    const auto loader =
        loader_of(plane, {.kind = sampler_kind::complete_groups, .batch_rows = 2, .group_size = 2});
    CHECK(values_of(answer_of<loaded_batch>(*loader)) == numbers{0, 500});
  }

  TEST_CASE("a balanced batch is claimed for all ranks at once") {
    store plane;
    const numbers tokens = {10, 90, 20, 80};
    for (const std::int32_t one : tokens)
      put_row(plane, one, 0, one);
    const auto loader =
        loader_of(plane, {.kind = sampler_kind::token_balanced, .batch_rows = 2, .ranks = 2});
    const loaded_batch second = answer_of<loaded_batch>(*loader, {1, 0});
    CHECK(values_of(second) == numbers{10, 90});
    CHECK(plane.stat().claims == 4);
    CHECK(answer_of<not_yet>(*loader, {1, 0}).rows_available == 0);
    const loaded_batch first = answer_of<loaded_batch>(*loader, {0, 0});
    CHECK(values_of(first) == numbers{20, 80});
    CHECK(first.number == second.number);
    REQUIRE(loader->release(first.number, {0, 0}).has_value());
    CHECK(plane.stat().claims == 4); // Rank 1 is at work on its part.
    REQUIRE(loader->release(first.number, {1, 0}).has_value());
    CHECK(plane.stat().claims == 0);
  }

  TEST_CASE("a row without what the kind needs is an error that names it, and nothing is claimed") {
    store plane;
    const std::int32_t value = 1;
    row_input row;
    row.cells = {scalar_cell("value", value)};
    const auto refused = [&plane](const std::string& words) {
      const auto loader = loader_of(plane, {.kind = sampler_kind::token_balanced, .batch_rows = 1});
      const auto answer = loader->next();
      REQUIRE_FALSE(answer.has_value());
      CHECK(answer.error().code == errc::invalid_argument);
      CHECK_MESSAGE(
          answer.error().text.starts_with("partition \"train\", row 1: tag \"tokens\" " + words),
          answer.error().text);
      CHECK(plane.stat().claims == 0);
    };
    const auto ids = plane.put("train", std::span(&row, 1));
    REQUIRE(ids.has_value());
    refused("is missing");
    row_patch patch{.row = ids->front(), .tags = {{"tokens", "many"}}, .cells = {}};
    REQUIRE(plane.patch("train", std::span(&patch, 1)).has_value());
    refused("is not an integer");
    patch.tags = {{"tokens", std::int64_t{-1}}};
    REQUIRE(plane.patch("train", std::span(&patch, 1)).has_value());
    refused("is -1, which is no number of tokens");
  }

  TEST_CASE("rows without a field are not claimed, and are counted at the end") {
    store plane;
    put_rows(plane, 1, 2);
    loader_options options = options_of({.batch_rows = 2});
    options.fields = {"value", "advantage"};
    const auto loader = streaming_loader::create(plane, options);
    REQUIRE(loader.has_value());
    CHECK(answer_of<not_yet>(**loader).rows_available == 0);
    (*loader)->finish();
    CHECK(answer_of<finished>(**loader).rows_left == 2);
  }

  TEST_CASE("conditions on tags choose the rows") {
    store plane;
    for (std::int32_t value = 1; value <= 6; ++value)
      put_row(plane, value, value % 2);
    loader_options options = options_of({.batch_rows = 3});
    options.tags = {tag_equals("group", std::int64_t{1})};
    const auto loader = streaming_loader::create(plane, options);
    REQUIRE(loader.has_value());
    CHECK(values_of(answer_of<loaded_batch>(**loader)) == numbers{1, 3, 5});
  }

  TEST_CASE("a row that was cleared while its batch waited gives the batch up, by name") {
    store plane;
    put_rows(plane, 1, 3);
    const auto loader = loader_of(plane, {.batch_rows = 2, .readers = 2});
    const loaded_batch first = answer_of<loaded_batch>(*loader, {0, 0});
    REQUIRE(plane.clear("train", std::span(first.values.rows).first(1)).has_value());
    const auto second = loader->next({0, 1});
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code == errc::not_found);
    CHECK(second.error().text.find("partition \"train\", row 1") != std::string::npos);
    CHECK(plane.stat().claims == 0);
    CHECK(loader->acknowledge(first.number, {0, 0}).error().code == errc::conflict);
    CHECK(values_of(answer_of<loaded_batch>(*loader, {0, 1})) == numbers{2, 3});
  }

  TEST_CASE("rows that were cleared while they were held need no acknowledgement") {
    store plane;
    put_rows(plane, 1, 4);
    const auto loader = loader_of(plane, {.batch_rows = 2});
    const loaded_batch first = answer_of<loaded_batch>(*loader);
    const loaded_batch second = answer_of<loaded_batch>(*loader);
    REQUIRE(plane.clear("train", std::span(first.values.rows).first(1)).has_value());
    REQUIRE(plane.clear("train", std::span(second.values.rows)).has_value());
    CHECK(loader->acknowledge(first.number).has_value());
    CHECK(loader->release(second.number).has_value());
    CHECK(plane.stat().claims == 0);
    CHECK(plane.describe("train", first.values.rows[1])->consumers.front().second ==
          consumer_state::consumed);
  }

  TEST_CASE("a reader that is too far ahead of its peers is told to wait for them") {
    store plane;
    put_rows(plane, 1, 9);
    const auto loader = loader_of(plane, {.batch_rows = 1, .readers = 2, .batches_max = 3});
    for (int round = 0; round < 3; ++round) {
      const loaded_batch one = answer_of<loaded_batch>(*loader, {0, 0});
      REQUIRE(loader->acknowledge(one.number, {0, 0}).has_value());
    }
    CHECK(answer_of<not_yet>(*loader, {0, 0}).peers_behind);
    const loaded_batch late = answer_of<loaded_batch>(*loader, {0, 1});
    CHECK(values_of(late) == numbers{1});
    REQUIRE(loader->acknowledge(late.number, {0, 1}).has_value());
    CHECK(values_of(answer_of<loaded_batch>(*loader, {0, 0})) == numbers{4});
  }

  TEST_CASE("what a peer holds may come back, so that the end is not said too early") {
    store plane;
    put_rows(plane, 1, 1);
    const auto loader = loader_of(plane, {.batch_rows = 1, .ranks = 2});
    loader->finish();
    const loaded_batch held = answer_of<loaded_batch>(*loader, {0, 0});
    answer_of<not_yet>(*loader, {1, 0});
    answer_of<finished>(*loader, {0, 0});
    REQUIRE(loader->release(held.number, {0, 0}).has_value());
    CHECK(values_of(answer_of<loaded_batch>(*loader, {1, 0})) == numbers{1});
  }

  TEST_CASE("options that do not fit are refused") {
    store plane;
    const auto refused = [&plane](const loader_options& options, const std::string& words) {
      const auto made = streaming_loader::create(plane, options);
      REQUIRE_FALSE(made.has_value());
      CHECK(made.error().code == errc::invalid_argument);
      CHECK_MESSAGE(made.error().text.find(words) != std::string::npos, made.error().text);
    };
    loader_options options = options_of({});
    options.fields.clear();
    refused(options, "partition \"train\", consumer \"trainer\": a batch has at least one field");
    options = options_of({.batch_rows = 0});
    refused(options, "at least one row");
    options = options_of(
        {.kind = sampler_kind::token_balanced, .batch_rows = 2, .group_size = 2, .ranks = 2});
    options.group_tag.clear();
    refused(options, "need group_tag");
    options.group_tag = "group";
    options.tokens_tag.clear();
    refused(options, "needs tokens_tag");
    options = options_of({});
    options.consumer.clear();
    refused(options, "each with a name");
  }
}
