#include "actors/checkpoint/restore_plan.hpp"

#include <doctest/doctest.h>

namespace weir {
namespace {

inventory_row row(std::uint64_t id, std::uint64_t group, std::uint32_t sibling, bool committed) {
  return {.row = row_id(id),
          .group = group_id(group),
          .sibling = sibling,
          .committed = committed,
          .fields = 3,
          .tokens = 10};
}

/// Two ready groups, one of them claimed; two admitted, one with a sealed sibling; two reserved.
restored_sections sound() {
  restored_sections sections;
  sections.data_plane = {.field_names = {"tokens", "logprobs"},
                         .rows = {row(1, 3, 0, true), row(2, 3, 1, true), row(3, 2, 0, true),
                                  row(4, 2, 1, true), row(9, 4, 1, false)}};
  sections.required_fields = {"tokens", "logprobs"};
  sections.replay = {{group_id(3), {row_id(1), row_id(2)}, 1, -1},
                     {group_id(2), {row_id(3), row_id(4)}, 0, 2}};
  sections.ledger = {
      {.group = group_id(7), .admission = 12},
      {.group = group_id(5), .admitted = true, .dispatch_index = 2},
      {.group = group_id(6), .admission = 11},
      {.group = group_id(4), .admitted = true, .dispatch_index = 1, .sealed = {{1, row_id(9)}}}};
  sections.next_group = group_id(8);
  return sections;
}

std::string differences(const restored_sections& sections) {
  const auto plan = plan_restore(sections);
  if (plan) return "none";
  CHECK(plan.error().code == errc::corrupt);
  return plan.error().text;
}

bool names(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_SUITE("actors/checkpoint/restore_plan") {
  TEST_CASE("sections that agree give the order of dispatch and the numbers of the table") {
    const auto plan = plan_restore(sound());
    REQUIRE(plan.has_value());
    CHECK(plan->ready == std::vector{group_id(2), group_id(3)});
    CHECK(plan->admitted == std::vector{group_id(4), group_id(5)});
    CHECK(plan->reserved == std::vector{group_id(6), group_id(7)});
    CHECK(plan->discarded.empty());
    CHECK(plan->poisoned.empty());
    CHECK(plan->groups_claimed_before == 1);
    CHECK(plan->groups_reissued == 2);
    CHECK(plan->siblings_kept == 5);
    CHECK(plan->tokens_kept == 50);
  }

  TEST_CASE("an empty bundle restores to nothing") {
    const auto plan = plan_restore({});
    REQUIRE(plan.has_value());
    CHECK(plan->ready.empty());
    CHECK(plan->admitted.empty());
  }

  TEST_CASE("a ledger entry that the data plane owns is discarded and reported") {
    auto sections = sound();
    sections.ledger.push_back({.group = group_id(3), .admitted = true, .dispatch_index = 1});
    const auto plan = plan_restore(sections);
    REQUIRE(plan.has_value());
    CHECK(plan->discarded == std::vector{group_id(3)});
    CHECK(plan->ready == std::vector{group_id(2), group_id(3)});
    CHECK(plan->admitted == std::vector{group_id(4), group_id(5)});
  }

  TEST_CASE("a spare is in the reserve alone, and was handed out") {
    auto sections = sound();
    sections.reserve = {group_id(0), group_id(1)};
    const auto plan = plan_restore(sections);
    REQUIRE(plan.has_value());
    CHECK(plan->spares == std::vector{group_id(0), group_id(1)});
    sections.reserve = {group_id(3), group_id(7), group_id(8)};
    const std::string text = differences(sections);
    names(text, "the reserve has group 3, and the replay index has it too");
    names(text, "the reserve has group 7, and the ledger has it too");
    names(text, "the reserve has group 8, the dataloader has handed out none from 8 on");
  }

  TEST_CASE("a group that was dispatched three times is poisoned") {
    auto sections = sound();
    sections.ledger[1].dispatches = 3;
    sections.ledger[3].dispatches = 2;
    const auto plan = plan_restore(sections);
    REQUIRE(plan.has_value());
    CHECK(plan->poisoned == std::vector{group_id(5)});
    CHECK(plan->admitted == std::vector{group_id(4)});
    CHECK(plan->groups_reissued == 1);
  }

  TEST_CASE("each difference names both sides") {
    auto sections = sound();
    SUBCASE("a row is missing in the data plane") {
      sections.data_plane.rows.erase(sections.data_plane.rows.begin());
      names(differences(sections), "the replay index names row 1 as sibling 0 of group 3, the data "
                                   "plane has no such row");
    }
    SUBCASE("a group is missing in the replay index") {
      sections.replay.pop_back();
      const auto text = differences(sections);
      names(text, "in 2 places");
      names(text, "the data plane has committed row 3 (group 2, sibling 0), the replay index does "
                  "not name it");
    }
    SUBCASE("a staged row that no ledger record names") {
      sections.ledger.back().sealed.clear();
      names(differences(sections), "the data plane has staged row 9 (group 4, sibling 1), no "
                                   "ledger record names it");
    }
    SUBCASE("a row is of another group") {
      sections.data_plane.rows[0].group = group_id(2);
      names(differences(sections), "the replay index names row 1 as sibling 0 of group 3, "
                                   "committed, in the data plane it is row 1 (group 2, sibling "
                                   "0), committed");
    }
    SUBCASE("a row is staged that should be committed") {
      sections.data_plane.rows[0].committed = false;
      names(differences(sections), "in the data plane it is row 1 (group 3, sibling 0), staged");
    }
    SUBCASE("a field is missing in one row") {
      sections.data_plane.rows[1].fields = 1;
      names(differences(sections), "needs fields [tokens, logprobs], the data plane has [tokens] "
                                   "of row 2 (group 3, sibling 1)");
    }
    SUBCASE("a field is missing altogether") {
      sections.required_fields.push_back("rewards");
      names(differences(sections), "needs fields [tokens, logprobs, rewards], the data plane "
                                   "knows [tokens, logprobs]");
    }
    SUBCASE("a row is named twice") {
      sections.replay[0].rows[1] = row_id(1);
      names(differences(sections), "and it is named elsewhere too");
    }
    SUBCASE("a row exists twice") {
      sections.data_plane.rows.push_back(sections.data_plane.rows[0]);
      names(differences(sections), "the data plane holds row 1 twice");
    }
    SUBCASE("a group is twice in the ledger") {
      sections.ledger.push_back(sections.ledger[0]);
      names(differences(sections), "the ledger has group 7 twice");
    }
    SUBCASE("a group that was never handed out") {
      sections.next_group = group_id(7);
      names(differences(sections), "the ledger has group 7, the dataloader has handed out none "
                                   "from 7 on");
    }
    SUBCASE("a group without rows") {
      sections.replay.push_back({group_id(1), {}, 0, -1});
      names(differences(sections), "the replay index has no row of group 1");
    }
  }

  TEST_CASE("at most twenty differences are listed, all are counted") {
    restored_sections sections;
    sections.next_group = group_id(100);
    for (std::uint64_t id = 0; id < 30; ++id)
      sections.data_plane.rows.push_back(row(id, id, 0, true));
    const auto text = differences(sections);
    names(text, "in 30 places");
    names(text, "; and 10 more");
  }
}

} // namespace weir
