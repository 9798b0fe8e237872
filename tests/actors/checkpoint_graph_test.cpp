/// The checkpoint actor over a small graph: what it refuses to start with, and what a lease that is
/// held too long does to a checkpoint.
#include "actors/checkpoint/participant.hpp"
#include "actors/protocols.hpp"
#include "actors/runtime/detail/relay.hpp"
#include "actors/runtime/simulation.hpp"
#include "examples/compose/run_parts.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <set>
#include <string>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t nanoseconds(std::chrono::nanoseconds duration) {
  return duration.count();
}

using holder_protocol =
    joined<owner_protocol, origin_protocol, protocol<note<StopGroup>, note<VersionLive>>>;

/// Takes a lease when it is told to stop a group, and gives it back when a version is live.
class holder : public participant {
public:
  using protocol = holder_protocol;
  static constexpr bool is_origin = true;
  static constexpr bool is_owner = true;

  holder(context ctx, event_sink& log) : participant(std::move(ctx), barrier_role::both, log) {
    serve(&holder::on_take);
    serve(&holder::on_give_back);
  }

private:
  task<void> on_take(message<StopGroup>) {
    auto lease = co_await mutations().enter();
    mutated();
    co_await given_back_.raised();
  }
  task<void> on_give_back(message<VersionLive>) {
    given_back_.raise();
    co_return;
  }
  captured_section capture() override {
    captured_section section;
    section.sequence = events().newest();
    section.trainer_step = 0;
    section.write = [](const section_target& target) {
      const std::array<std::byte, 1> payload{};
      return write_one_section(target, "holder.bin", payload);
    };
    return section;
  }

  signal given_back_;
};

/// A run directory, and a simulated graph with a holder and a checkpoint actor, which is restarted
/// as that of a job is.
struct held_run {
  explicit held_run(checkpoint_peers peers, checkpoint_options options = {})
      : storage(dataplane::make_posix_disk()), parts(*storage, directory.path().string()),
        around({.storage = storage.get(), .log = quiet}),
        system(around.env(), {.life = parts.life}),
        holding(system.add<holder>("holder", *parts.log)),
        keeper(system.add<checkpoint>(system.supervise("checkpoints"), "checkpoint",
                                      std::move(options), std::move(peers), parts.services)) {}
  static void quiet(log_level, std::string_view, std::string_view) {}

  [[nodiscard]] auto request() {
    return system.ask_blocking(keeper, pack(RequestCheckpointT()), within(60s));
  }

  /// Lets virtual time pass.
  void pass(std::chrono::nanoseconds duration) {
    const auto until = around.elapsed() + duration;
    while (around.elapsed() < until && around.step()) {
    }
  }
  /// One mutation, under a lease that is given back.
  void mutate() {
    holding.tell(pack(StopGroupT()));
    pass(10ms);
    holding.tell(pack(VersionLiveT()));
    pass(10ms);
  }
  [[nodiscard]] std::set<std::string> bundles() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory.file("checkpoints")))
      if (entry.path().filename().string().starts_with("step_"))
        names.insert(entry.path().filename().string());
    return names;
  }

  temp_dir directory;
  std::unique_ptr<dataplane::disk> storage;
  run_parts parts;
  simulation around;
  graph system;
  handle<holder_protocol> holding;
  handle<checkpoint_protocol> keeper;
};

} // namespace

TEST_SUITE("actors/checkpoint_graph") {
  TEST_CASE("a lease that is held fails the checkpoint by name and age, and the gate opens again") {
    held_run run({{"holder"}, {"holder"}, {}});
    REQUIRE(run.system.start());
    run.holding.tell(pack(StopGroupT()));
    const auto refused = run.request();
    REQUIRE(!refused);
    CAPTURE(to_string(refused.error()));
    CHECK(refused.error().text.find("holder") != std::string::npos);
    CHECK(refused.error().text.find("transaction 1 of holder, 4500 ms old: held, no request") !=
          std::string::npos);
    run.holding.tell(pack(VersionLiveT()));
    const auto published = run.request();
    REQUIRE(published);
    CHECK((*published)->bundle()->str() == "step_0");
    CHECK(run.system.counters().unsettled_leases == 0);
    CHECK(run.system.stop());
  }

  TEST_CASE("a save by time is named after the step, and left out when nothing mutated") {
    checkpoint_options options;
    options.schedule.save_interval_ns = nanoseconds(10s);
    held_run run({{"holder"}, {"holder"}, {}}, options);
    REQUIRE(run.system.start());
    run.pass(9s);
    CHECK(run.bundles().empty());
    run.pass(2s);
    CHECK(run.bundles() == std::set<std::string>{"step_0"});
    run.pass(30s);
    CHECK(run.bundles() == std::set<std::string>{"step_0"});
    run.mutate();
    run.pass(10s);
    CHECK(run.bundles() == std::set<std::string>{"step_0", "step_0.1"});
    run.mutate();
    run.pass(10s);
    CHECK(run.bundles() == std::set<std::string>{"step_0", "step_0.1", "step_0.2"});
    CHECK(run.system.stop());
  }

  // The life after a restore has a bundle as good as a new one; the checkpoint actor that is
  // restarted within it does not know what the one before published.
  TEST_CASE("what was restored is not written again, unless the checkpoint actor is another one") {
    checkpoint_options options;
    options.restored = true;
    held_run run({{"holder"}, {"holder"}, {}}, options);
    REQUIRE(run.system.start());
    REQUIRE(run.request());
    CHECK(run.bundles().empty());
    detail::end_as_failure(run.keeper.where(), error{errc::internal, "a test ends it"});
    run.pass(5s);
    REQUIRE(run.request());
    CHECK(run.bundles() == std::set<std::string>{"step_0"});
    REQUIRE(run.request());
    CHECK(run.bundles() == std::set<std::string>{"step_0"});
    CHECK(run.system.stop());
  }

  TEST_CASE("at the time to save by, a bundle is published, and the run ends") {
    checkpoint_options options;
    options.schedule.must_save_by_ns = nanoseconds(20s);
    held_run run({{"holder"}, {"holder"}, {}}, options);
    REQUIRE(run.system.start());
    run.pass(19s);
    CHECK(run.bundles().empty());
    CHECK_FALSE(run.system.outcome().has_value());
    run.pass(2s);
    CHECK(run.bundles() == std::set<std::string>{"step_0"});
    REQUIRE(run.system.outcome().has_value());
    CHECK(run.system.outcome()->has_value());
    CHECK(run.system.stop());
  }

  TEST_CASE("the time to save by counts from the start of the program, not of this life") {
    checkpoint_options options;
    options.schedule.must_save_by_ns = nanoseconds(20s);
    options.schedule.started_ns = -nanoseconds(15s);
    held_run run({{"holder"}, {"holder"}, {}}, options);
    REQUIRE(run.system.start());
    run.pass(6s);
    CHECK(run.bundles() == std::set<std::string>{"step_0"});
    CHECK(run.system.outcome().has_value());
    CHECK(run.system.stop());
  }

  TEST_CASE("a bundle that is not there by its deadline ends the run with the reason") {
    checkpoint_options options;
    options.schedule.must_save_by_ns = nanoseconds(20s);
    held_run run({{"holder"}, {"holder"}, {}}, options);
    REQUIRE(run.system.start());
    run.holding.tell(pack(StopGroupT()));
    run.pass(30s);
    const auto outcome = run.system.outcome();
    REQUIRE(outcome.has_value());
    REQUIRE_FALSE(outcome->has_value());
    CHECK(outcome->error().code == errc::exhausted);
    CHECK(outcome->error().text.find("the time to save by has come") != std::string::npos);
    CHECK(outcome->error().text.find("transaction 1 of holder") != std::string::npos);
    CHECK(run.bundles().empty());
  }

  TEST_CASE("a graph whose barrier does not know every gate and owner does not start") {
    held_run run({{"holdr"}, {"keeper"}, {}});
    const auto started = run.system.start();
    REQUIRE(!started);
    CHECK(started.error().code == errc::invalid_argument);
    CHECK(started.error().text ==
          "actor checkpoint: no cut of its barrier would be whole; origin holder of the graph is "
          "not in its list; holdr is in its list, and no origin of the graph is called so; owner "
          "holder of the graph is not in its list; keeper is in its list, and no owner of the "
          "graph is called so");
  }
}

} // namespace weir::test
