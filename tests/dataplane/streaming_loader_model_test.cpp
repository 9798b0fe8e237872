/// The loader against a model that only knows rows: under random verbs of a producer and of
/// all readers, and over lives of the loader, each row goes to one rank, to every reader of it, in
/// whole groups, and is consumed exactly when the last of them has acknowledged.
#include "dataplane/streaming_loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;

namespace {

struct model_row {
  std::int64_t group = 0;
  std::int64_t tokens = 0;
  /// The batch that has it; 0: available.
  std::uint64_t batch = 0;
  bool consumed = false;
};

/// What the readers of one rank were given under one number.
struct model_share {
  std::vector<std::uint64_t> rows;
  std::set<std::size_t> holding;
  std::set<std::size_t> acknowledged;
};

class loader_history {
public:
  loader_history(std::uint64_t seed, const sampler_options& sampler)
      : sampler_(sampler), random_(seed) {
    begin();
  }

  void step() {
    switch (random_() % 12) {
    case 0:
    case 1:
    case 2:
      return produce();
    case 3:
    case 4:
    case 5:
    case 6:
      ask({random_() % sampler_.ranks, random_() % sampler_.readers});
      return;
    case 7:
    case 8:
    case 9:
      settle(true);
      return;
    case 10:
      settle(false);
      return;
    default:
      if (random_() % 20 == 0) begin();
    }
  }

  /// All that is left is delivered and acknowledged.
  void drain() {
    loader_->finish();
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < sampler_.ranks; ++rank)
        for (std::size_t reader = 0; reader < sampler_.readers; ++reader)
          progress = ask({rank, reader}) || progress;
      while (settle(true))
        progress = true;
    }
    const auto end = loader_->next();
    REQUIRE(end.has_value());
    REQUIRE(std::holds_alternative<finished>(*end));
    std::size_t left = 0;
    for (const auto& [id, row] : rows_)
      left += row.consumed ? 0 : 1;
    CHECK(std::get<finished>(*end).rows_left == left);
    // In whole groups, and equally many for each rank when they are chosen together.
    const bool together = sampler_.kind == sampler_kind::token_balanced;
    CHECK(complete_groups_left() < (together ? sampler_.ranks : 1));
  }

  void check() {
    loader_->check_invariants();
    std::uint64_t claims = 0;
    for (const auto& [id, row] : rows_) {
      const auto found = plane_.describe("p", row_id(id));
      REQUIRE(found.has_value());
      if (row.batch == 0) {
        CHECK(found->consumers.empty());
        continue;
      }
      REQUIRE(found->consumers.size() == 1);
      CHECK(found->consumers.front().second ==
            (row.consumed ? consumer_state::consumed : consumer_state::claimed));
      claims += row.consumed ? 0 : 1;
    }
    CHECK(plane_.stat().claims == claims);
  }

private:
  using share_key = std::pair<std::uint64_t, std::size_t>; ///< Batch and rank.

  /// A loader of another life: what was not consumed is available again.
  void begin() {
    loader_.reset();
    auto made = streaming_loader::create(plane_, {.partition = "p",
                                                  .consumer = "c",
                                                  .fields = {"value"},
                                                  .tags = {},
                                                  .group_tag = "group",
                                                  .tokens_tag = "tokens",
                                                  .sampler = sampler_});
    REQUIRE(made.has_value());
    loader_ = std::move(*made);
    shares_.clear();
    for (auto& [id, row] : rows_)
      if (!row.consumed) row.batch = 0;
  }

  void produce() {
    const std::int32_t value = static_cast<std::int32_t>(rows_.size());
    const auto group =
        static_cast<std::int64_t>(rows_.size() / (2 * sampler_.group_size) * 2 + random_() % 2);
    const auto tokens = static_cast<std::int64_t>(random_() % 1000);
    row_input row;
    row.tags = {{"group", group}, {"tokens", tokens}};
    row.cells = {scalar_cell("value", value)};
    const auto ids = plane_.put("p", std::span(&row, 1));
    REQUIRE(ids.has_value());
    rows_[ids->front().value] = {group, tokens, 0, false};
  }

  bool ask(reader_id who) {
    auto answer = loader_->next(who);
    REQUIRE(answer.has_value());
    const auto* loaded = std::get_if<loaded_batch>(&*answer);
    if (loaded == nullptr) {
      if (const auto* lacking = std::get_if<not_yet>(&*answer); lacking && !lacking->peers_behind)
        check_lacking(*lacking);
      return false;
    }
    const share_key key{loaded->number, who.rank};
    std::vector<std::uint64_t> ids;
    for (const row_id row : loaded->values.rows)
      ids.push_back(row.value);
    const auto known = shares_.find(key);
    if (known != shares_.end()) {
      CHECK(known->second.rows == ids); // The very rows that its peers got.
    } else {
      check_fresh(key, ids);
      shares_[key].rows = ids;
    }
    CHECK(shares_[key].holding.insert(who.reader).second);
    if (sampler_.kind == sampler_kind::token_balanced) mark_partners(loaded->number);
    return true;
  }

  void check_fresh(const share_key& key, const std::vector<std::uint64_t>& ids) {
    REQUIRE_FALSE(ids.empty());
    std::map<std::int64_t, std::size_t> groups;
    for (const std::uint64_t id : ids) {
      model_row& row = rows_.at(id);
      CHECK((row.batch == 0 || row.batch == key.first));
      CHECK_FALSE(row.consumed);
      row.batch = key.first;
      ++groups[row.group];
    }
    if (sampler_.group_size > 1)
      for (const auto& [group, count] : groups)
        CHECK(count % sampler_.group_size == 0);
    if (sampler_.kind == sampler_kind::sequential)
      for (const auto& [id, row] : rows_) // The first that were available.
        CHECK((row.batch != 0 || id > ids.back()));
  }

  /// Rows that other ranks have not asked for yet are claimed too: the store says which.
  void mark_partners(std::uint64_t batch) {
    for (auto& [id, row] : rows_)
      if (row.batch == 0 && !plane_.describe("p", row_id(id))->consumers.empty()) row.batch = batch;
  }

  void check_lacking(const not_yet& lacking) {
    std::size_t available = 0;
    for (const auto& [id, row] : rows_)
      available += row.batch == 0 ? 1 : 0;
    CHECK(lacking.rows_available == available);
    const bool together = sampler_.kind == sampler_kind::token_balanced;
    CHECK(complete_groups_left() * sampler_.group_size <
          sampler_.batch_rows * (together ? sampler_.ranks : 1));
  }

  std::size_t complete_groups_left() const {
    std::map<std::int64_t, std::size_t> groups;
    std::size_t complete = 0;
    for (const auto& [id, row] : rows_)
      if (row.batch == 0)
        ++groups[sampler_.group_size == 1 ? static_cast<std::int64_t>(id) : row.group];
    for (const auto& [group, count] : groups)
      complete += count / sampler_.group_size;
    return complete;
  }

  /// Acknowledges or releases something that somebody holds.
  bool settle(bool done) {
    std::vector<std::pair<share_key, std::size_t>> held;
    for (const auto& [key, share] : shares_)
      for (const std::size_t reader : share.holding)
        held.emplace_back(key, reader);
    if (held.empty()) return false;
    const auto [key, reader] = held[random_() % held.size()];
    model_share& share = shares_.at(key);
    share.holding.erase(reader);
    if (!done) {
      REQUIRE(loader_->release(key.first, {key.second, reader}).has_value());
      free_if_unused(key.first);
      return true;
    }
    REQUIRE(loader_->acknowledge(key.first, {key.second, reader}).has_value());
    share.acknowledged.insert(reader);
    if (share.acknowledged.size() == sampler_.readers)
      for (const std::uint64_t id : share.rows)
        rows_.at(id).consumed = true;
    return true;
  }

  void free_if_unused(std::uint64_t batch) {
    for (const auto& [key, share] : shares_)
      if (key.first == batch && !(share.holding.empty() && share.acknowledged.empty())) return;
    std::erase_if(shares_, [batch](const auto& one) { return one.first.first == batch; });
    for (auto& [id, row] : rows_)
      if (row.batch == batch && !row.consumed) row.batch = 0; // Numbers are a loader's own.
  }

  sampler_options sampler_;
  std::mt19937_64 random_;
  store plane_{{.segment_bytes = 4096}};
  std::unique_ptr<streaming_loader> loader_;
  std::map<std::uint64_t, model_row> rows_;
  std::map<share_key, model_share> shares_;
};

void run(const sampler_options& sampler) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    loader_history history(seed, sampler);
    for (int step = 0; step < 300; ++step) {
      history.step();
      if (step % 10 == 0) history.check();
    }
    history.drain();
    history.check();
  }
}

} // namespace

TEST_SUITE("dataplane/streaming_loader") {
  TEST_CASE("random histories of one reader") {
    run({.batch_rows = 3});
  }
  TEST_CASE("random histories of ranks with peers") {
    run({.batch_rows = 3, .ranks = 2, .readers = 3, .batches_max = 5});
  }
  TEST_CASE("random histories of complete groups") {
    run({.kind = sampler_kind::complete_groups,
         .batch_rows = 8,
         .group_size = 4,
         .ranks = 2,
         .readers = 2});
  }
  TEST_CASE("random histories of balanced groups") {
    run({.kind = sampler_kind::token_balanced,
         .batch_rows = 4,
         .group_size = 2,
         .ranks = 3,
         .readers = 2});
  }
}
