/// The threads on which blocking work runs: disk, BLAS, compression. Never a scheduler thread.
#pragma once

#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace weir {

/// Runs one job after the other on each of its threads. Thread-safe.
class blocking_pool {
public:
  virtual ~blocking_pool() = default;
  /// Queues a job; false when the pool is stopped or `queue_limit` jobs wait.
  [[nodiscard]] virtual bool submit(std::function<void()> job) = 0;
  /// Finishes what was queued and ends the threads; nothing is taken any more.
  virtual void stop() = 0;
};

struct blocking_pool_options {
  std::size_t threads = 2;
  std::size_t queue_limit = 65536;
  /// Added to the threads' nice level, so that messages do not queue behind computation.
  int nice = 10;
  /// Never takes a processor from a thread that runs: it waits for the end of that one's slice
  /// (SCHED_BATCH on Linux).
  bool batch = false;
};

/// Who waits for a piece of blocking work decides which pool it runs on.
enum class work_class : std::uint8_t {
  awaited,   ///< An actor goes on with its value: a score, a record that is read.
  background ///< Nothing that computes waits for it, and it may take long: a bundle.
};

[[nodiscard]] std::unique_ptr<blocking_pool> make_blocking_pool(blocking_pool_options options);

} // namespace weir
