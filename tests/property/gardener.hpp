/// Actors that grow random trees together: a node of a tree may be grown by another actor, under a
/// deadline; leaves mutate each other under leases, stream to each other, and work on the pool.
#pragma once

#include "actors/graph.hpp"
#include "tests/property/plan.hpp"

#include <atomic>
#include <string>
#include <vector>

namespace weir::test {

using gardener_protocol =
    protocol<call<RequestCheckpoint, CheckpointPublished>, call<ReserveBatch, BatchReserved>,
             call<GenerateGroup, GenerationAccepted>, note<StopGroup>>;

/// What all gardeners of a graph share: the trees by their ids, and a count of lives.
struct garden {
  std::vector<const plan*> nodes; ///< By id.
  std::size_t gardeners = 0;
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> wrong_answers = 0;

  void add(const plan& tree);
};

class gardener : public actor {
public:
  using protocol = gardener_protocol;
  static constexpr bool is_origin = true;
  static constexpr bool is_owner = true;

  gardener(context ctx, garden& shared);
  [[nodiscard]] static std::string name_of(std::size_t number);

private:
  using grown = result<message<CheckpointPublished>>;

  task<grown> on_grow(message<RequestCheckpoint> request);
  task<result<message<BatchReserved>>> on_reserve(lease_ref lease, message<ReserveBatch> request);
  task<result<message<GenerationAccepted>>> on_generate(message<GenerateGroup> request);
  task<void> on_close(message<StopGroup> note);

  task<void> grow(const plan* node);
  task<void> perform(const plan* node);
  task<void> ask(const plan* node);
  task<void> mutate(const plan* node);
  task<void> listen(const plan* node);
  task<void> emit(message<GenerateGroup> request);
  task<void> work();
  task<void> call(const plan* node);
  task<void> children_of(const plan* node);
  task<void> all(const plan* node);
  task<void> first(const plan* node);
  task<void> limit(const plan* node);

  [[nodiscard]] handle<gardener_protocol> peer(const plan& node) const;

  garden& shared_;
  context self_;
  std::uint64_t next_epoch_ = 1;
};

/// Has the gardeners grow all trees at the same time, with a closed gate in between; then finishes
/// the run.
class crowd : public actor {
public:
  using protocol = weir::protocol<>;
  crowd(context ctx, garden& shared, std::vector<int> roots)
      : actor(ctx), shared_(shared), self_(std::move(ctx)), roots_(std::move(roots)) {}

private:
  task<void> run() override;
  task<void> plant(int root);

  garden& shared_;
  context self_;
  std::vector<int> roots_;
};

} // namespace weir::test
