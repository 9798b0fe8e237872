/// A device whose work is done by the pool of the world: one piece after the other, each a step of
/// the simulation's schedule.
#pragma once

#include "actors/runtime/blocking_pool.hpp"
#include "kernels/device_stream.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace weir::sim {

class pool_stream final : public kernels::device_stream {
public:
  /// `pool` outlives the stream.
  explicit pool_stream(blocking_pool& pool) : pool_(pool) {}

  result<void> submit(std::function<void()> work, std::function<void()> on_done) override {
    queue_->push_back([work = std::move(work), on_done = std::move(on_done)] {
      work();
      on_done();
    });
    // As many jobs as pieces, each for the oldest one: their order is that of the queue.
    const auto run_oldest = [queue = queue_] {
      auto oldest = std::move(queue->front());
      queue->pop_front();
      oldest();
    };
    if (pool_.submit(run_oldest)) return {};
    queue_->pop_back();
    return failure(errc::exhausted, "the simulated pool is full");
  }

  [[nodiscard]] std::size_t pending() const override { return queue_->size(); }
  [[nodiscard]] kernels::device where() const noexcept override { return kernels::device(); }
  [[nodiscard]] void* native() const noexcept override { return nullptr; }

private:
  blocking_pool& pool_;
  /// Shared with the jobs: the pool may drop them after the stream is gone.
  std::shared_ptr<std::deque<std::function<void()>>> queue_ =
      std::make_shared<std::deque<std::function<void()>>>();
};

} // namespace weir::sim
