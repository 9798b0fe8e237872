/// Weights on their way to generators that lag, fail and come back, in simulation.
#include "actors/runtime/simulation.hpp"
#include "actors/trainer/weight_publisher.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// What a generator of these tests does, and what it was sent, over all its lives.
struct receiver_script {
  std::vector<std::uint64_t> taken = {};
  int lives = 0;
  std::uint64_t fails_at = 1'000; ///< Once, when it is sent this version.
  std::uint64_t hangs_at = 1'000;
  std::uint64_t refuses_at = 1'000;
};
using script_ptr = std::shared_ptr<receiver_script>;

/// A generator as far as weights go.
class receiver final : public actor {
public:
  using protocol = generator_protocol;
  receiver(context ctx, script_ptr script) : actor(std::move(ctx)), script_(std::move(script)) {
    ++script_->lives;
    serve(&receiver::on_update);
    serve(&receiver::on_await_loss);
  }

private:
  task<result<message<WeightsLive>>> on_update(message<UpdateWeights> request) {
    const std::uint64_t version = request->version();
    if (version == script_->fails_at) {
      script_->fails_at = 1'000;
      fail(error{errc::internal, "out of memory"});
      co_await never_.raised();
    }
    if (version == script_->hangs_at) co_await never_.raised();
    if (version == script_->refuses_at) co_return failure(errc::invalid_argument, "too long");
    script_->taken.push_back(version);
    WeightsLiveT live;
    live.version = version;
    co_return pack(live);
  }
  task<result<message<WeightsLost>>> on_await_loss(message<AwaitWeightsLost>) {
    while (true)
      co_await never_.raised();
  }

  const script_ptr script_;
  signal never_;
};

/// Publishes versions 0 to `last`, each with as many earlier ones, and pauses in between.
class publishing final : public actor {
public:
  using protocol = weir::protocol<>;
  publishing(context ctx, std::vector<handle<generator_protocol>> generators, std::uint64_t earlier,
             std::uint64_t last)
      : actor(std::move(ctx)), earlier_(earlier), last_(last),
        publisher_(clock(), std::move(generators), {.transfer_timeout = 10s},
                   [this](const std::string& text) { log(log_level::warning, text); }) {}

private:
  task<void> run() override {
    for (std::uint64_t newest = 0; newest <= last_; ++newest) {
      std::vector<published_version> versions;
      for (std::uint64_t v = newest - std::min(newest, earlier_); v <= newest; ++v) {
        UpdateWeightsT update;
        update.version = v;
        versions.push_back({weight_version(v), pack(update)});
      }
      auto live = co_await publisher_.publish(std::move(versions));
      if (!live) {
        fail(std::move(live.error()));
        co_return;
      }
      co_await clock().after(5s);
    }
    finish_run();
  }

  const std::uint64_t earlier_;
  const std::uint64_t last_;
  weight_publisher publisher_;
};

result<void> publish_to(std::vector<script_ptr> scripts, std::uint64_t earlier, std::uint64_t last,
                        std::uint64_t seed = 1) {
  simulation_options quiet;
  quiet.seed = seed;
  quiet.log = [](log_level, std::string_view, std::string_view) {};
  const auto ended = simulate(quiet, [&](graph& system) {
    const auto pool = system.supervise("pool", {.restarts_max = 10});
    std::vector<handle<generator_protocol>> generators;
    for (std::size_t i = 0; i < scripts.size(); ++i)
      generators.push_back(
          system.add<receiver>(pool, "generator-" + std::to_string(i), scripts[i]));
    system.add<publishing>("publishing", generators, earlier, last);
  });
  return ended.outcome;
}

std::string failure_of(receiver_script script) {
  const auto ended = publish_to({std::make_shared<receiver_script>(std::move(script))}, 0, 3);
  REQUIRE_FALSE(ended.has_value());
  return ended.error().text;
}

using versions = std::vector<std::uint64_t>;

} // namespace

TEST_SUITE("actors/weight_publisher") {
  TEST_CASE("every generator gets every version once, in order") {
    for (const std::uint64_t earlier : {0U, 2U}) {
      const auto one = std::make_shared<receiver_script>();
      const auto two = std::make_shared<receiver_script>();
      REQUIRE(publish_to({one, two}, earlier, 4).has_value());
      CHECK(one->taken == versions{0, 1, 2, 3, 4});
      CHECK(two->taken == versions{0, 1, 2, 3, 4});
    }
  }

  TEST_CASE("one that comes back gets the version at once, and the earlier ones that pins name") {
    for (const std::uint64_t earlier : {0U, 2U})
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const auto steady = std::make_shared<receiver_script>();
        const auto fragile = std::make_shared<receiver_script>();
        fragile->fails_at = 3;
        REQUIRE(publish_to({steady, fragile}, earlier, 4, seed).has_value());
        CHECK(fragile->lives == 2);
        CHECK(steady->taken == versions{0, 1, 2, 3, 4});
        CHECK(fragile->taken ==
              (earlier == 0 ? versions{0, 1, 2, 3, 4} : versions{0, 1, 2, 1, 2, 3, 4}));
      }
  }

  TEST_CASE("with all generators down, the version is live once one is back") {
    const auto only = std::make_shared<receiver_script>();
    only->fails_at = 2;
    REQUIRE(publish_to({only}, 1, 4).has_value());
    CHECK(only->taken == versions{0, 1, 1, 2, 3, 4});
  }

  TEST_CASE("a transfer that hangs ends with the generator's name, after its deadline") {
    CHECK(
        failure_of({.hangs_at = 2}) ==
        "generator-0 did not take the weights of version 2 in 10 s: it hangs, or the transfer was "
        "lost");
  }

  TEST_CASE("a version that is refused ends with the generator's name and its reason") {
    CHECK(failure_of({.refuses_at = 1})
              .find("generator-0 did not take the weights of version 1: "
                    "too long") == 0);
  }
}

} // namespace weir::test
