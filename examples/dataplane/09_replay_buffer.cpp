/// A replay buffer that survives a crash, without actor or model: rows with tags, a consumer that
/// claims and acknowledges, bundles that link what did not change, a restore. The first life ends
/// in step 5, with rows claimed; what it did since the bundle of step 4 is undone as a whole.
/// Prints: step 2: 4 rows, all segments written
///         step 4: 8 rows, all segments written
///         step 4: 8 rows, restored, 0 claims
///         step 6: 12 rows, an older segment linked
#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/run_directory.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace {

using namespace weir;
using namespace weir::dataplane;
const std::string partition = "experience", learner = "learner", field = "observation";

class replay_buffer {
public:
  replay_buffer(disk& storage, run_directory run)
      : storage_(storage), run_(std::move(run)), directory_(run_.path() + "/checkpoints") {}

  /// Takes the newest valid bundle, if there is one, and begins a life of its own. Call it first.
  result<void> restore() {
    if (auto made = make_directories(storage_, directory_); !made) return made;
    const auto survey = survey_bundles(storage_, directory_);
    if (!survey) return failure(survey.error());
    const auto choice = newest_valid_bundle(storage_, directory_, *survey);
    if (!choice) return failure(choice.error());
    const auto life = run_.raise_incarnation(survey->highest_incarnation);
    if (!life) return failure(life.error());
    life_ = *life;
    if (!*choice) return {};
    const bundle& from = (*choice)->chosen;
    const std::string path = join(directory_, to_string(from.name));
    auto loaded = load_snapshot(storage_, path, from.content);
    if (!loaded) return failure(loaded.error());
    rows_.restore(loaded->state);
    base_ = snapshot_base{path, loaded->files};
    step_ = from.content.step;
    return say("restored, " + std::to_string(rows_.stat().claims) + " claims");
  }

  /// Adds four observations and learns from the two oldest; a bundle every second step.
  result<void> step(bool dies) {
    const std::vector<float> values(1024, static_cast<float>(++step_));
    const row_input row{{}, {{"step", std::int64_t(step_)}}, {vector_cell<float>(field, values)}};
    if (auto put = rows_.put(partition, std::vector(4, row)); !put) return failure(put.error());
    const row_query oldest{{}, {field}, learner, 2}; // Rows with the field that nobody claimed.
    const auto chosen = rows_.query(partition, oldest);
    if (!chosen) return failure(chosen.error());
    if (auto claimed = rows_.claim(partition, learner, *chosen); !claimed) return claimed;
    const auto batch = rows_.get(partition, *chosen, std::span(&field, 1)); // Learn from it here.
    if (!batch || dies) return batch ? result<void>{} : failure(batch.error());
    if (auto done = rows_.acknowledge(partition, learner, *chosen); !done) return done;
    if (auto done = rows_.clear(partition, *chosen); !done) return done;
    return step_ % 2 == 0 ? save() : result<void>{};
  }

private:
  result<void> say(const std::string& what) const {
    const auto rows = static_cast<unsigned>(rows_.stat().committed_rows);
    std::printf("step %u: %u rows, %s\n", static_cast<unsigned>(step_), rows, what.c_str());
    return {};
  }

  result<void> save() {
    const epoch_id epoch{life_.value, 1, step_};
    auto writer = bundle_writer::begin(storage_, directory_, epoch);
    if (!writer) return failure(writer.error());
    const snapshot cut = rows_.capture(); // O(1): from here on rows may change again.
    auto written = write_increment(storage_, writer->directory(), epoch, cut, {{}, base_});
    if (!written) return failure(written.error());
    for (finished_section& section : written->sections)
      if (auto added = writer->add(std::move(section)); !added) return added;
    const auto current = [this] { return run_.check_current(life_); };
    const auto done = writer->publish({"example", step_, {}, {}, {}, current});
    if (!done) return failure(done.error());
    base_ = snapshot_base{join(directory_, to_string(done->published.name)), written->files};
    return say(written->linked_bytes > 0 ? "an older segment linked" : "all segments written");
  }

  disk& storage_;
  run_directory run_;
  std::string directory_;
  store rows_;
  std::optional<snapshot_base> base_;
  incarnation life_;
  std::uint64_t step_ = 0;
};

result<void> live(disk& storage, const std::string& directory, int steps, bool dies) {
  auto run = run_directory::acquire(storage, directory, {this_process(), "now"});
  if (!run) return failure(run.error());
  replay_buffer buffer(storage, std::move(*run));
  auto done = buffer.restore();
  for (int step = 1; done && step <= steps; ++step)
    done = buffer.step(dies && step == steps);
  return done;
}

} // namespace

int main() {
  std::string directory = (std::filesystem::temp_directory_path() / "replay-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  const auto storage = make_posix_disk();
  auto done = live(*storage, directory, 5, true);
  if (done) done = live(*storage, directory, 2, false);
  std::filesystem::remove_all(directory);
  if (!done) std::puts(to_string(done.error()).c_str());
  return done ? 0 : 1;
}
