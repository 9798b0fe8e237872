// Removing an old bundle may take as long as it likes: cuts and bundles go on beside it.
#include "actors/checkpoint/participant.hpp"
#include "actors/graph.hpp"
#include "actors/protocols.hpp"
#include "examples/compose/run_parts.hpp"
#include "tests/support/forwarding_disk.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <future>

using namespace weir;
using namespace std::chrono_literals;

namespace {

/// A disk on which removing files waits until it is told to go on.
class slow_disk final : public test::forwarding_disk {
public:
  explicit slow_disk(dataplane::disk& inner)
      : forwarding_disk(inner), released_(release_.get_future().share()) {}
  void release() { release_.set_value(); }
  /// Ready once a file is to be removed.
  [[nodiscard]] std::future<void> removal() { return removal_.get_future(); }

  result<void> unlink(const std::string& path) override {
    if (path.find(".retired-") != std::string::npos) {
      if (!seen_.exchange(true)) removal_.set_value();
      released_.wait();
    }
    return forwarding_disk::unlink(path);
  }

private:
  std::promise<void> release_;
  std::shared_future<void> released_;
  std::promise<void> removal_;
  std::atomic<bool> seen_ = false;
};

/// An owner and origin that is one step further at each cut.
class counter : public participant {
public:
  using protocol = joined<owner_protocol, origin_protocol>;
  static constexpr bool is_origin = true;
  static constexpr bool is_owner = true;
  counter(context ctx, event_sink& log) : participant(std::move(ctx), barrier_role::both, log) {}

private:
  captured_section capture() override {
    captured_section section;
    section.sequence = events().newest();
    section.trainer_step = captured_step() + 1;
    mutated();
    section.write = [](const section_target& target) {
      const std::array<std::byte, 1> payload{};
      return write_one_section(target, "counter.bin", payload);
    };
    return section;
  }
};

} // namespace

TEST_SUITE_BEGIN("regress");

TEST_CASE("regress/OLMo-core_819: an old bundle that is slow to remove delays no cut and no save") {
  const test::temp_dir home;
  const auto real = dataplane::make_posix_disk();
  slow_disk storage(*real);
  auto removal = storage.removal();
  run_parts parts(storage, home.path().string());
  bundle_store_options keeping;
  keeping.checkpoint_directory = home.file("checkpoints");
  keeping.run_id = "run";
  keeping.life = parts.life;
  keeping.retention.keep_top_k = 1;
  parts.services.store = std::make_shared<bundle_store>(
      storage, parts.directory, keeping, std::vector<dataplane::bundle>(), std::nullopt);
  world env({.storage = &storage});
  graph actors(env, {.life = parts.life});
  std::ignore = actors.add<counter>("counter", *parts.log);
  const checkpoint_peers peers{{"counter"}, {"counter"}, {}};
  const auto keeper =
      actors.add<checkpoint>("checkpoint", checkpoint_options(), peers, parts.services);
  REQUIRE(actors.start().has_value());
  const auto save = [&] {
    const auto saved = actors.ask_blocking(keeper, pack(RequestCheckpointT()), within(60s));
    REQUIRE(saved.has_value());
    return (*saved)->bundle()->str();
  };
  CHECK(save() == "step_0");
  CHECK(save() == "step_1"); // Now step_0 is to go.
  removal.wait();
  for (const char* further :
       {"step_2", "step_3", "step_4", "step_5"}) // More than the pool has threads.
    CHECK(save() == further);
  CHECK(std::filesystem::exists(home.file("checkpoints/step_5/MANIFEST")));
  storage.release();
  CHECK(actors.stop().has_value());
}

TEST_SUITE_END();
