/// A bundle that is written at leisure, and somebody who comes to wait for it.
#include "actors/checkpoint/participant.hpp"
#include "actors/graph.hpp"
#include "actors/protocols.hpp"
#include "examples/compose/run_parts.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// What happened, told by any thread.
class happenings {
public:
  void tell(const std::string& what) {
    {
      const std::lock_guard guard(mutex_);
      all_.insert(what);
    }
    told_.notify_all();
  }
  [[nodiscard]] bool has(const std::string& what, std::chrono::milliseconds patience = 30s) {
    std::unique_lock lock(mutex_);
    return told_.wait_for(lock, patience, [&] { return all_.contains(what); });
  }

private:
  std::mutex mutex_;
  std::condition_variable told_;
  std::set<std::string> all_;
};

/// An owner whose sections rest for an hour while they are written; one step further at each cut.
class leisurely : public participant {
public:
  using protocol = joined<owner_protocol, origin_protocol>;
  static constexpr bool is_origin = true;
  static constexpr bool is_owner = true;
  leisurely(context ctx, event_sink& log, std::shared_ptr<happenings> seen)
      : participant(std::move(ctx), barrier_role::both, log), seen_(std::move(seen)) {}

private:
  captured_section capture() override {
    captured_section section;
    section.sequence = events().newest();
    section.trainer_step = captured_step() + 1;
    mutated();
    section.write = [step = section.trainer_step, seen = seen_](const section_target& target) {
      seen->tell("writes " + std::to_string(step));
      std::ignore = give_way(1h);
      const std::array<std::byte, 1> payload{};
      return write_one_section(target, "leisurely.bin", payload);
    };
    return section;
  }
  void prepare_capture() override { seen_->tell("prepares"); }

  std::shared_ptr<happenings> seen_;
};

task<void> ask_for_save(handle<checkpoint_protocol> keeper) {
  keeper.tell(pack(PeriodicCheckpointT()));
  co_return;
}

/// A run whose first bundle, which nobody waits for, is being written.
class leisurely_run {
public:
  explicit leisurely_run(checkpoint_options options = {})
      : storage_(dataplane::make_posix_disk()), parts_(*storage_, home_.path().string()),
        env_({.storage = storage_.get()}), actors_(env_, {.life = parts_.life}) {
    parts_.services.record = [seen = seen_](const checkpoint_record& one) {
      seen->tell("published " + one.published.bundle);
    };
    std::ignore = actors_.add<leisurely>("owner", *parts_.log, seen_);
    keeper_ = actors_.add<checkpoint>("checkpoint", options,
                                      checkpoint_peers{{"owner"}, {"owner"}, {}}, parts_.services);
    REQUIRE(actors_.start().has_value());
    if (!options.schedule.save_interval_ns) save();
    REQUIRE(seen_->has("writes 0"));
  }
  ~leisurely_run() { CHECK(actors_.stop().has_value()); }

  /// Nobody waits for it.
  void save() { REQUIRE(actors_.run_blocking(&ask_for_save, keeper_).has_value()); }
  [[nodiscard]] std::string request() {
    const auto saved = actors_.ask_blocking(keeper_, pack(RequestCheckpointT()), within(30s));
    return saved ? (*saved)->bundle()->str() : to_string(saved.error());
  }
  [[nodiscard]] happenings& seen() { return *seen_; }

private:
  temp_dir home_;
  std::unique_ptr<dataplane::disk> storage_;
  run_parts parts_;
  std::shared_ptr<happenings> seen_ = std::make_shared<happenings>();
  world env_;
  graph actors_;
  handle<checkpoint_protocol> keeper_;
};

} // namespace

TEST_SUITE("actors/hurried_save") {
  TEST_CASE("a save that somebody asks for rests nowhere, nor does the one before it") {
    leisurely_run run;
    CHECK(run.seen().has("prepares"));
    CHECK_FALSE(run.seen().has("published step_0", 50ms));
    CHECK(run.request() == "step_1");
    CHECK(run.seen().has("published step_0"));
  }

  TEST_CASE("once nobody waits any more, bundles are written at leisure again") {
    leisurely_run run;
    CHECK(run.request() == "step_1");
    run.save();
    CHECK(run.seen().has("writes 2"));
    CHECK_FALSE(run.seen().has("published step_2", 50ms));
    CHECK(run.request() == "step_3");
  }

  TEST_CASE("a bundle is hurried when the next one is due") {
    leisurely_run run;
    run.save();
    CHECK(run.seen().has("published step_0"));
  }

  TEST_CASE("a bundle is hurried when half of its own time is over") {
    checkpoint_options options;
    options.write_timeout = 2s;
    leisurely_run run(options);
    CHECK(run.seen().has("published step_0"));
  }

  TEST_CASE("a save by time is hurried when the time to save by has come") {
    checkpoint_options options;
    options.schedule.save_interval_ns = 1'000'000;
    options.schedule.must_save_by_ns = 1'000'000'000;
    leisurely_run run(options);
    CHECK(run.seen().has("published step_0"));
    CHECK(run.seen().has("published step_1")); // The one of that time.
  }
}

} // namespace weir::test
