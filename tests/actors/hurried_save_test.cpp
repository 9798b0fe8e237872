/// A bundle that is written at leisure, and somebody who comes to wait for it.
#include "actors/checkpoint/participant.hpp"
#include "actors/graph.hpp"
#include "actors/protocols.hpp"
#include "examples/compose/run_parts.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <array>
#include <future>
#include <string>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// An owner whose sections rest for an hour while they are written; one step further at each cut.
class leisurely : public participant {
public:
  using protocol = joined<owner_protocol, origin_protocol>;
  static constexpr bool is_origin = true;
  static constexpr bool is_owner = true;
  leisurely(context ctx, event_sink& log, std::shared_ptr<std::promise<void>> writes)
      : participant(std::move(ctx), barrier_role::both, log), writes_(std::move(writes)) {}

private:
  captured_section capture() override {
    captured_section section;
    section.sequence = events().newest();
    section.trainer_step = captured_step() + 1;
    mutated();
    section.write = [first = section.trainer_step == 0, writes = writes_](const auto& target) {
      if (first) writes->set_value();
      give_way(1h);
      const std::array<std::byte, 1> payload{};
      return write_one_section(target, "leisurely.bin", payload);
    };
    return section;
  }
  std::shared_ptr<std::promise<void>> writes_;
};

task<void> ask_for_save(handle<checkpoint_protocol> keeper) {
  keeper.tell(pack(PeriodicCheckpointT()));
  co_return;
}

/// A run whose first periodic bundle is written at leisure.
class leisurely_run {
public:
  explicit leisurely_run(checkpoint_options options = {})
      : storage_(dataplane::make_posix_disk()), parts_(*storage_, home_.path().string()),
        env_({.storage = storage_.get()}), actors_(env_, {.life = parts_.life}) {
    parts_.services.record = [this](const checkpoint_record& one) {
      if (one.published.bundle == "step_0") first_.set_value();
    };
    std::ignore = actors_.add<leisurely>("owner", *parts_.log, writes_);
    keeper_ = actors_.add<checkpoint>("checkpoint", options,
                                      checkpoint_peers{{"owner"}, {"owner"}, {}}, parts_.services);
    REQUIRE(actors_.start().has_value());
    save();
    REQUIRE(writes_->get_future().wait_for(30s) == std::future_status::ready);
  }
  ~leisurely_run() { CHECK(actors_.stop().has_value()); }

  /// Nobody waits for it.
  void save() { REQUIRE(actors_.run_blocking(&ask_for_save, keeper_).has_value()); }
  [[nodiscard]] std::string request() {
    const auto saved = actors_.ask_blocking(keeper_, pack(RequestCheckpointT()), within(30s));
    return saved ? (*saved)->bundle()->str() : to_string(saved.error());
  }
  [[nodiscard]] bool first_is_published() {
    return first_.get_future().wait_for(30s) == std::future_status::ready;
  }

private:
  temp_dir home_;
  std::unique_ptr<dataplane::disk> storage_;
  run_parts parts_;
  std::shared_ptr<std::promise<void>> writes_ = std::make_shared<std::promise<void>>();
  std::promise<void> first_;
  world env_;
  graph actors_;
  handle<checkpoint_protocol> keeper_;
};

} // namespace

TEST_SUITE("actors/hurried_save") {
  TEST_CASE("a save that somebody asks for rests nowhere, nor does the one before it") {
    leisurely_run run;
    CHECK(run.request() == "step_1");
    CHECK(run.first_is_published());
  }

  TEST_CASE("a bundle is hurried when the next one is due") {
    leisurely_run run;
    run.save();
    CHECK(run.first_is_published());
  }

  TEST_CASE("a bundle is hurried when half of its own time is over") {
    checkpoint_options options;
    options.write_timeout = 2s;
    leisurely_run run(options);
    CHECK(run.first_is_published());
  }
}

} // namespace weir::test
