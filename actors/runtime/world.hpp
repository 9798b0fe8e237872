/// The only source of time, randomness, storage and blocking threads.
///
/// Real by default; tests and the simulator pass other parts. Everything here may be used from any
/// thread, except a `random_source`, which belongs to the one who asked for it.
#pragma once

#include "actors/runtime/blocking_pool.hpp"
#include "actors/runtime/deadline.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace weir {

namespace dataplane {
class disk;
} // namespace dataplane

namespace detail {
class simulated_scheduler;
} // namespace detail

class clock {
public:
  virtual ~clock() = default;
  /// Monotonic, in nanoseconds.
  [[nodiscard]] virtual std::int64_t now() const = 0;
  /// "2026-11-29T19:46:07.125Z".
  [[nodiscard]] virtual std::string wall_text() const = 0;
  /// Suspends the coroutine for a time, from now on. Cancelling forgets it.
  [[nodiscard]] detail::sleep_awaiter after(std::chrono::nanoseconds duration) const noexcept {
    return detail::sleep_awaiter(duration);
  }
};

/// A time as `wall_text` writes it; milliseconds since 1970.
[[nodiscard]] std::string utc_text(std::int64_t unix_ms);

/// The steady clock and UTC of this machine.
[[nodiscard]] std::unique_ptr<clock> make_system_clock();

/// A stream of random numbers: xoshiro256**, seeded by splitmix64.
class random_source {
public:
  explicit random_source(std::uint64_t seed) noexcept;
  [[nodiscard]] std::uint64_t next() noexcept;
  /// Uniform in [0, bound). @pre bound > 0
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept;
  /// Uniform in [0, 1).
  [[nodiscard]] double unit() noexcept;

private:
  std::uint64_t state_[4];
};

enum class log_level : std::uint8_t { debug, info, warning, error };
[[nodiscard]] std::string_view to_string(log_level level) noexcept;

/// Called from any thread.
using log_hook =
    std::function<void(log_level level, std::string_view actor, std::string_view text)>;

struct world_options {
  std::uint64_t seed = 42;
  blocking_pool_options blocking = {};
  /// Leaves processors to all that computes; as fast as that when somebody waits for it. What a
  /// bundle takes of others, disk and caches included, is about three times this share.
  blocking_pool_options background = {.batch = true, .crowded_share = 0.02};
  /// Must outlive the world; null where nobody uses storage.
  dataplane::disk* storage = nullptr;
  /// Empty: warnings and errors go to the standard error stream.
  log_hook log = {};
};

class world {
public:
  explicit world(world_options options = {});
  /// One pool for all work. With a schedule, graphs of this world take turns from it: `simulation`.
  world(world_options options, std::unique_ptr<weir::clock> time,
        std::unique_ptr<blocking_pool> pool, detail::simulated_scheduler* schedule = nullptr);
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world();

  [[nodiscard]] const weir::clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] blocking_pool& pool(work_class kind = work_class::awaited) const noexcept {
    return kind == work_class::background && background_ ? *background_ : *pool_;
  }
  /// @pre the world was given storage
  [[nodiscard]] dataplane::disk& storage() const noexcept;
  /// A stream of its own for each purpose, the same for the same seed: "replay", "fault 3".
  [[nodiscard]] random_source random(std::string_view purpose) const noexcept;
  void log(log_level level, std::string_view actor, std::string_view text) const;
  /// Null where actors run on threads.
  [[nodiscard]] detail::simulated_scheduler* schedule() const noexcept { return schedule_; }

private:
  world_options options_;
  std::unique_ptr<weir::clock> clock_;
  std::unique_ptr<blocking_pool> pool_;
  std::unique_ptr<blocking_pool> background_; ///< Null: `pool_` serves both.
  detail::simulated_scheduler* schedule_;
};

} // namespace weir
