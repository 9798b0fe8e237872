/// A sampler by name and out of a shared object: what it declares is known before a run is built,
/// and everything that cannot be loaded is refused with its place and the reason.
#include "actors/sampler/custom_sampler.hpp"
#include "actors/sampler/slot_table.hpp"
#include "examples/sampler/dispatch_order.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace weir;

namespace {

std::string module_path() {
  const char* const path = std::getenv("WEIR_SAMPLER_MODULE");
  REQUIRE(path != nullptr);
  return path;
}

result<std::shared_ptr<const sampler_policy>> loaded(const std::string& target) {
  return make_custom_sampler(target, {}, {.window = 2, .groups_per_step = 3});
}

/// The error of a symbol of the module, without what names the target.
std::string refusal_of(const std::string& symbol, errc code = errc::invalid_argument) {
  const std::string target = module_path() + ":" + symbol;
  const auto policy = loaded(target);
  REQUIRE_FALSE(policy.has_value());
  CHECK(policy.error().code == code);
  const std::string head = "async_rl.sampler.target (" + target + "): ";
  REQUIRE(policy.error().text.starts_with(head));
  return policy.error().text.substr(head.size());
}

} // namespace

TEST_SUITE("samplers/custom") {
  TEST_CASE("a registered sampler is found by its name") {
    sampler_registry samplers;
    samplers.add("dispatch_order", &example::make_dispatch_order);
    const auto policy =
        make_custom_sampler("dispatch_order", samplers, {.window = 2, .groups_per_step = 3});
    REQUIRE(policy.has_value());
    CHECK((*policy)->name() == "dispatch_order");
    CHECK((*policy)->window() == 2);
    CHECK(buffer_groups_required(**policy, 3, 1) == 9);
    const auto unknown = make_custom_sampler("fifo", samplers, {});
    REQUIRE_FALSE(unknown.has_value());
    CHECK(unknown.error().text ==
          "async_rl.sampler.target (fifo): no sampler of this name is registered (known: "
          "dispatch_order); one in a shared object is named FILE:SYMBOL");
  }

  TEST_CASE("a target is a name, or a file and a symbol") {
    CHECK(*parse_sampler_target("mine") == sampler_target{"", "mine"});
    CHECK(*parse_sampler_target("a/b.so:mine") == sampler_target{"a/b.so", "mine"});
    CHECK(*parse_sampler_target("a:b.so:mine") == sampler_target{"a:b.so", "mine"});
    for (const char* const torn : {"", ":", "a.so:", ":mine"}) {
      const auto refused = parse_sampler_target(torn);
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.error().text == "async_rl.sampler.target (" + std::string(torn) +
                                        "): expected a registered name, or FILE:SYMBOL of a "
                                        "shared object");
    }
  }

  TEST_CASE("a sampler of a shared object is checked like any other, and says what it supports") {
    const auto shadow = loaded(module_path() + ":shadowed_sampler");
    REQUIRE(shadow.has_value());
    CHECK((*shadow)->name() == "shadowed");
    CHECK_FALSE((*shadow)->supports_buffer_checkpoint());
    const auto doubling = loaded(module_path() + ":doubling_sampler");
    REQUIRE(doubling.has_value());
    const std::vector<policy_slot> slots = {{.group = group_id(4), .ready = true}};
    const slot_table table(slots);
    const auto chosen =
        (*doubling)->select(table.view(), {.version = {}, .groups_min = 1, .groups_max = 3});
    REQUIRE_FALSE(chosen.has_value());
    CHECK(chosen.error().text ==
          "sampler doubling (" + module_path() + ":doubling_sampler): select: took group 4 twice");
  }

  TEST_CASE("a policy keeps its shared object loaded") {
    auto policy = loaded(module_path() + ":shadowed_sampler");
    REQUIRE(policy.has_value());
    const std::shared_ptr<const sampler_policy> kept = *policy;
    policy = loaded(module_path() + ":closed_sampler"); // The first handle is let go of.
    CHECK(*kept->admits(0, weight_version(0)));
    CHECK_FALSE(*(*policy)->admits(0, weight_version(0)));
  }

  TEST_CASE("a missing file or symbol is named") {
    const auto missing = loaded("/nowhere/libmine.so:mine");
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().code == errc::not_found);
    CHECK(missing.error().text ==
          "async_rl.sampler.target (/nowhere/libmine.so:mine): /nowhere/libmine.so: cannot open "
          "shared object file: No such file or directory");
    CHECK(refusal_of("mine", errc::not_found) ==
          "there is no symbol mine; is it declared extern \"C\"?");
  }

  TEST_CASE("a symbol of another type is none of ours: a function, or other data") {
    CHECK(refusal_of("some_function") == "some_function is no weir::sampler_plugin");
    CHECK(refusal_of("some_data") == "some_data is no weir::sampler_plugin");
  }

  TEST_CASE("another version of the interface is refused before anything of it is called") {
    CHECK(refusal_of("foreign_sampler", errc::unsupported) ==
          "it was built for version 99 of the sampler interface, this program has version 1: "
          "build it with this program's headers");
  }

  TEST_CASE("a factory that throws or makes nothing is named") {
    CHECK(refusal_of("empty_sampler") == "its factory makes no sampler");
    CHECK(refusal_of("failing_sampler").starts_with("its factory threw: vector::_M_range_check"));
  }
}
