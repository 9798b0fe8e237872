/// A graph that takes part in checkpoints as a run does, over synthetic groups: the production
/// dataloader, sampler, replay and checkpoint actors, and two stand-ins for those that compute. The
/// stand-in of rollout makes one leased transaction a millisecond; that of trainer holds a policy
/// of the main job's size, and is one step further at each cut, so that no bundle links another's.
///
/// Half of the groups are READY in replay, with rows; the other half is ADMITTED in the ledger.
#pragma once

#include "actors/checkpoint/checkpoint.hpp"
#include "actors/graph.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace weir::benchmarks {

/// Of its ledger.
inline constexpr std::uint64_t checkpoint_graph_groups_per_step = 500;

struct checkpoint_graph_options {
  std::uint64_t groups = 10'000;
  /// Of one group: one row each, once it is READY.
  std::uint32_t siblings = 2;
  /// Of the rows in the data plane, about.
  std::uint64_t payload_bytes = 4ULL << 20;
  /// Of the file that stands for weights and optimizer.
  std::uint64_t policy_bytes = 10ULL << 20;
  /// Threads that run its actors.
  std::size_t workers = 2;
};

class checkpoint_graph {
public:
  /// `directory` does not exist; it is removed at the end.
  checkpoint_graph(checkpoint_graph_options options, std::string directory);
  ~checkpoint_graph();
  checkpoint_graph(const checkpoint_graph&) = delete;
  checkpoint_graph& operator=(const checkpoint_graph&) = delete;

  /// One periodic checkpoint of the production actor, until its bundle is published.
  [[nodiscard]] CheckpointPublishedT publish();
  /// Nanoseconds that one barrier held: quiesce, cut, resume; its captures are dropped then. Not to
  /// be mixed with `publish`: its epochs are later than all of that one's.
  [[nodiscard]] double hold_ns();
  [[nodiscard]] double payload_mib() const { return payload_mib_; }
  /// Where its bundles are.
  [[nodiscard]] std::string bundles() const;

private:
  struct parts;

  std::unique_ptr<parts> parts_;
  double payload_mib_ = 0.0;
  std::uint64_t next_epoch_ = 1;
};

} // namespace weir::benchmarks
