// Removing an old bundle may take as long as it likes: cuts and bundles go on beside it.
#include "actors/checkpoint/participant.hpp"
#include "actors/graph.hpp"
#include "actors/protocols.hpp"
#include "examples/compose/run_parts.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <future>

using namespace weir;
using namespace std::chrono_literals;

namespace {

/// The real disk, on which removing files, or keeping them for the next bundle, waits until it is
/// told to go on.
class slow_disk final : public dataplane::disk {
public:
  slow_disk() : under_(dataplane::make_posix_disk()), released_(release_.get_future().share()) {}
  void release() { release_.set_value(); }
  /// Ready once a file is to be removed.
  [[nodiscard]] std::future<void> removal() { return removal_.get_future(); }

  result<std::unique_ptr<dataplane::file>> create(const std::string& path) override {
    return under_->create(path);
  }
  result<std::unique_ptr<dataplane::file>> open_or_create(const std::string& path) override {
    return under_->open_or_create(path);
  }
  result<std::unique_ptr<dataplane::file>> open(const std::string& path) override {
    return under_->open(path);
  }
  result<void> sync_directory(const std::string& path) override {
    return under_->sync_directory(path);
  }
  result<void> rename(const std::string& source, const std::string& target) override {
    return under_->rename(source, target);
  }
  result<void> rename_exclusive(const std::string& source, const std::string& target) override {
    take_time(source);
    return under_->rename_exclusive(source, target);
  }
  result<void> link(const std::string& source, const std::string& target) override {
    return under_->link(source, target);
  }
  result<void> make_symlink(const std::string& destination, const std::string& path) override {
    return under_->make_symlink(destination, path);
  }
  result<std::string> read_symlink(const std::string& path) override {
    return under_->read_symlink(path);
  }
  result<void> unlink(const std::string& path) override {
    take_time(path);
    return under_->unlink(path);
  }
  result<void> make_directory(const std::string& path) override {
    return under_->make_directory(path);
  }
  result<void> remove_directory(const std::string& path) override {
    return under_->remove_directory(path);
  }
  result<std::vector<dataplane::directory_entry>> list(const std::string& path) override {
    return under_->list(path);
  }
  result<dataplane::file_status> stat(const std::string& path) override {
    return under_->stat(path);
  }
  result<std::unique_ptr<dataplane::file_lock>> lock(const std::string& path) override {
    return under_->lock(path);
  }

private:
  /// For whatever is done to the files of a bundle that is to go.
  void take_time(const std::string& path) {
    if (path.find("/.retired-step") == std::string::npos) return;
    if (!seen_.exchange(true)) removal_.set_value();
    released_.wait();
  }

  std::unique_ptr<dataplane::disk> under_;
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
  slow_disk storage;
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
