/// The threads on which blocking work runs: disk, BLAS, compression. Never a scheduler thread.
#pragma once

#include "messages/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>

namespace weir {

/// Runs one job after the other on each of its threads. Thread-safe.
class blocking_pool {
public:
  virtual ~blocking_pool() = default;
  /// Queues a job; false when the pool is stopped or `queue_limit` jobs wait.
  [[nodiscard]] virtual bool submit(std::function<void()> job) = 0;
  /// Finishes what was queued and ends the threads; nothing is taken any more.
  virtual void stop() = 0;
  /// While somebody waits for what the pool does, its threads do not rest: a rest under way ends.
  virtual void hurry(bool somebody_waits) { std::ignore = somebody_waits; }
};

struct blocking_pool_options {
  std::size_t threads = 2;
  std::size_t queue_limit = 65536;
  /// Added to the threads' nice level, so that messages do not queue behind computation.
  int nice = 10;
  /// Never takes a processor from a thread that runs: it waits for the end of that one's slice
  /// (SCHED_BATCH on Linux).
  bool batch = false;
  /// What one of its threads takes at most of a processor that others want as well, on average: it
  /// rests after a job, and where a long one gives way (`processor_share`). 1: it never rests.
  double crowded_share = 1.0;
};

/// Who waits for a piece of blocking work decides which pool it runs on.
enum class work_class : std::uint8_t {
  awaited,   ///< An actor goes on with its value: a score, a record that is read.
  background ///< Nothing that computes waits for it, and it may take long: a bundle.
};

[[nodiscard]] std::unique_ptr<blocking_pool> make_blocking_pool(blocking_pool_options options);

/// For a long job, between two pieces and without a lock: the thread rests as its pool's share
/// asks, and for `at_least`; not at all while somebody waits (`hurry`), or on any other thread.
/// Whether it rested as long as that. Where the system does not tell what a thread waited (in
/// /proc/self/schedstat) there is no share to keep to: the pool has the lowest priority instead.
bool give_way(std::chrono::nanoseconds at_least = {});

} // namespace weir
