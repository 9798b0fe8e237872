#include "messages/rule.hpp"

#include <doctest/doctest.h>

#include <set>

namespace weir {

TEST_SUITE("messages/rule") {
  TEST_CASE("every rule has a name of its own, and is found by it") {
    std::set<std::string_view> names;
    for (const rule which : all_rules()) {
      CHECK(rule_named(to_string(which)) == which);
      names.insert(to_string(which));
    }
    CHECK(names.size() == all_rules().size());
    CHECK_FALSE(rule_named("unknown rule").has_value());
  }

  TEST_CASE("a suspension turns off its rule alone, for as long as it lives") {
    for (const rule which : all_rules()) {
      const rule_suspension off(which);
      for (const rule other : all_rules())
        CHECK(enforced(other) == (other != which));
    }
    for (const rule which : all_rules())
      CHECK(enforced(which));
  }
}

} // namespace weir
