/// The published bundles of a run, and how the next one comes to be. No actor: called on the
/// blocking pool. A checkpoint actor makes one bundle at a time; what a life of it left running
/// when it died goes on beside the calls of the next life, so that each holds a lock. `retire` may
/// run beside them.
#pragma once

#include "actors/checkpoint/barrier_state.hpp"
#include "actors/checkpoint/write_terms.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/retention.hpp"
#include "dataplane/run_directory.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weir {

struct bundle_store_options {
  std::string checkpoint_directory;
  std::string run_id;
  /// The life that publishes; a higher number in INCARNATION stops it.
  incarnation life;
  std::string metric_name;
  dataplane::retention_policy retention;
  /// Told of each bundle that the next may link; may be null.
  std::shared_ptr<write_terms> terms = {};
};

/// A bundle that is being written. Owners write below `writer.directory()`.
struct unfinished_bundle {
  dataplane::bundle_writer writer;
  cut_facts cut;
  std::optional<double> metric;
  /// Name of the bundle whose policy was linked, or empty.
  std::string policy_from;
  std::optional<error> failed; ///< First failure of a section.
  bool ended = false;          ///< Published, given up, or thrown away.
};

/// What a publication came to.
struct published_bundle {
  std::string name;
  std::string parent;
  std::uint64_t bytes = 0;
  std::optional<error> pointer_failure; ///< `latest` does not name it; it is complete all the same.
};

class bundle_store {
public:
  /// `known` are the valid bundles found at the start; `restored` the one this life continues.
  bundle_store(dataplane::disk& storage, std::shared_ptr<dataplane::run_directory> directory,
               bundle_store_options options, std::vector<dataplane::bundle> known,
               std::optional<dataplane::bundle> restored);
  bundle_store(const bundle_store&) = delete;
  bundle_store& operator=(const bundle_store&) = delete;
  /// Removes what it kept of a retired bundle for the next.
  ~bundle_store();

  /// Makes the directory of the unfinished bundle, and throws away what a life that died left
  /// unfinished. The policy of a published bundle of the same step and history is linked instead of
  /// written again.
  [[nodiscard]] result<std::shared_ptr<unfinished_bundle>> begin(const cut_facts& cut,
                                                                 std::optional<double> metric);
  /// Publishes, in the order of bundle_writer.hpp, with `training_info.json` added. The events
  /// up to the cut are durable before. Errors: conflict after a fence, or when it was discarded.
  [[nodiscard]] result<published_bundle> publish(unfinished_bundle& bundle);
  /// Throws a bundle away that will not be published.
  void discard(unfinished_bundle& bundle);
  /// The same for one of an epoch below this one, and from here on no bundle of such an epoch is
  /// begun or published: the life that wrote it died. Returns what was published last, if anything:
  /// that life may have had no time to say so.
  std::optional<published_event> fence(epoch_id epoch);
  /// Retires what the policy does not keep, however long that takes. An error is for the log: the
  /// next call tries again.
  [[nodiscard]] result<void> retire();

  /// The bundle that this life restored or published last.
  [[nodiscard]] std::string newest_name() const;

private:
  static void throw_away(unfinished_bundle& bundle);
  [[nodiscard]] const dataplane::bundle* same_step(std::uint64_t step) const;
  [[nodiscard]] result<void> check_in_time(epoch_id epoch) const;
  [[nodiscard]] std::vector<dataplane::bundle> take_leaving();
  void tell_terms() const;
  [[nodiscard]] result<void> add_training_info(unfinished_bundle& bundle) const;

  mutable std::mutex one_call_;
  epoch_id fence_ = {};
  std::optional<published_event> published_;
  std::shared_ptr<unfinished_bundle> unfinished_;
  dataplane::disk& storage_;
  std::shared_ptr<dataplane::run_directory> directory_;
  bundle_store_options options_;
  std::mutex known_mutex_; ///< Of `known_`, which retiring and publishing share.
  std::vector<dataplane::bundle> known_;
  std::optional<dataplane::bundle> newest_;
};

} // namespace weir
