// The store of bundles on a real disk: what a run does with the bundles that it retires.
#include "actors/checkpoint/bundle_store.hpp"
#include "dataplane/bundle_reader.hpp"
#include "dataplane/posix_disk.hpp"
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace weir;

namespace {

namespace fs = std::filesystem;

/// Keeps the newest bundle alone.
class keeper {
public:
  keeper()
      : directory_(std::make_shared<dataplane::run_directory>(*dataplane::run_directory::acquire(
            *storage_, home_.path().string(), {dataplane::this_process(), "now"}))) {
    bundle_store_options options;
    options.checkpoint_directory = bundles();
    options.run_id = "run";
    options.life = *directory_->raise_incarnation(incarnation(0));
    options.retention.keep_top_k = 1;
    REQUIRE(storage_->make_directory(bundles()));
    store_ = std::make_unique<bundle_store>(*storage_, directory_, options,
                                            std::vector<dataplane::bundle>(), std::nullopt);
  }

  /// Publishes a bundle with one section, then retires the one before.
  void save(std::uint64_t step, const std::string& text) {
    cut_facts cut;
    cut.epoch = {1, 1, step + 1};
    cut.trainer_step = static_cast<std::int64_t>(step);
    const auto begun = store_->begin(cut, std::nullopt);
    REQUIRE(begun);
    dataplane::bundle_writer& writer = (*begun)->writer;
    auto section = dataplane::write_section(*storage_, writer.directory(), "policy/state.bin",
                                            writer.epoch(), std::as_bytes(std::span(text)));
    REQUIRE(section);
    REQUIRE(writer.add(*section));
    REQUIRE(store_->publish(**begun));
    REQUIRE(store_->retire());
  }
  void end() { store_ = nullptr; }

  [[nodiscard]] std::string bundles() const { return home_.file("checkpoints"); }
  [[nodiscard]] std::string of(std::uint64_t step) const {
    return bundles() + "/step_" + std::to_string(step);
  }
  [[nodiscard]] std::uint64_t inode_of(std::uint64_t step) {
    const auto status = storage_->stat(of(step) + "/policy/state.bin");
    REQUIRE(status);
    return status->inode;
  }
  [[nodiscard]] dataplane::disk& storage() { return *storage_; }

private:
  test::temp_dir home_;
  std::unique_ptr<dataplane::disk> storage_ = dataplane::make_posix_disk();
  std::shared_ptr<dataplane::run_directory> directory_;
  std::unique_ptr<bundle_store> store_;
};

} // namespace

TEST_SUITE_BEGIN("bundle_store");

TEST_CASE("a run writes over the bundles that it retires, and leaves nothing of them behind") {
  keeper run;
  run.save(0, std::string(5000, 'a'));
  const auto first = run.inode_of(0);
  run.save(1, "a second bundle while the first is kept");
  const bool over = run.storage().writes_over(run.bundles());
  CHECK(fs::exists(run.bundles() + "/.retired-spare") == over);
  run.save(2, "shorter than the first");
  CHECK(dataplane::verify_bundle(run.storage(), run.of(2)).empty());
  if (over) CHECK(run.inode_of(2) == first);
  run.end();
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(run.bundles()))
    left.push_back(entry.path().filename());
  std::ranges::sort(left);
  CHECK(left == std::vector<std::string>{"latest", "step_2"});
}

TEST_SUITE_END();
