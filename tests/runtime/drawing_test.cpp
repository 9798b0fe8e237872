/// A graph as Graphviz text, and what a graph checks before it starts: the same facts.
#include "actors/graph.hpp"
#include "actors/runtime/detail/drawing.hpp"

#include <doctest/doctest.h>

namespace weir::test {

namespace {

using anything = protocol<call<Probe, ProbeAnswered>>;

class peer : public actor {
public:
  using protocol = anything;
  explicit peer(context ctx) : actor(std::move(ctx)) {}
};

/// Handles in a struct, as the roles of the library take them.
struct some_peers {
  std::vector<handle<anything>> workers;
  handle<anything> watcher; ///< May be empty.

  template <class Wiring>
  void wire(Wiring& wiring) const {
    wiring.needs_each(workers);
    wiring.may_use(watcher);
  }
};

struct some_barrier {
  std::vector<std::string> origins;
  std::vector<std::string> owners;

  template <class Wiring>
  void wire(Wiring& wiring) const {
    wiring.barrier_over(origins, owners);
  }
};

template <class Argument>
class given : public actor {
public:
  using protocol = weir::protocol<>;
  given(context ctx, Argument) : actor(std::move(ctx)) {}
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_SUITE("runtime/drawing") {
  TEST_CASE("a role is a shape and a colour, and a barrier is dashed") {
    const std::string dot = detail::to_dot({{"bank", false, true, {}, {}, {}},
                                            {"teller", true, false, {"bank", "bank"}, {}, {}},
                                            {"both", true, true, {}, {}, {}},
                                            {"saver", false, false, {}, {"teller", "bank"}, {}}});
    CHECK(dot ==
          R"(digraph weir {
  rankdir=LR;
  node [fontname="sans-serif"];
  "bank" [label="bank\nowner", shape=cylinder];
  "teller" [label="teller\norigin", shape=box, style="rounded,filled", fillcolor=lightblue];
  "both" [label="both\norigin, owner", shape=cylinder, style=filled, fillcolor=lightblue];
  "saver" [label="saver", shape=box, style=rounded];
  "teller" -> "bank";
  "saver" -> "teller" [style=dashed, constraint=false, color=gray40];
  "saver" -> "bank" [style=dashed, constraint=false, color=gray40];
}
)");
  }

  TEST_CASE("any text may be a name") {
    const std::string dot = detail::to_dot({{"a \"b\" \\ c\nd", false, false, {}, {}, {}}});
    CHECK(has(dot, R"(  "a \"b\" \\ c\nd" [label="a \"b\" \\ c\nd", shape=box)"));
  }

  TEST_CASE("handles inside of a struct are drawn, empty ones that may be so are not") {
    world env;
    graph system(env);
    const auto one = system.add<peer>("one");
    const auto two = system.add<peer>("two");
    system.add<given<some_peers>>("user", some_peers{{one, two}, {}});
    const std::string dot = system.describe();
    CHECK(has(dot, "\"user\" -> \"one\";"));
    CHECK(has(dot, "\"user\" -> \"two\";"));
    CHECK(!has(dot, "\"one\" -> "));
    CHECK(system.start());
  }

  TEST_CASE("a handle of nobody inside of a struct is found before anything starts") {
    world env;
    graph system(env);
    system.add<given<some_peers>>("user", some_peers{{handle<anything>()}, {}});
    const auto started = system.start();
    REQUIRE(!started);
    CHECK(has(started.error().text, "actor user: argument 1 after the context"));
  }

  TEST_CASE("the barrier that an argument names is drawn") {
    world env;
    graph system(env);
    system.add<peer>("writer", origin);
    system.add<peer>("store", owner);
    system.add<given<some_barrier>>("saver", some_barrier{{"writer"}, {"store"}});
    const std::string dot = system.describe();
    CHECK(has(dot, "\"saver\" -> \"writer\" [style=dashed"));
    CHECK(has(dot, "\"saver\" -> \"store\" [style=dashed"));
  }
}

} // namespace weir::test
