/// The schedule of a simulation: whose turn is next, chosen by a seed; and time, which moves only
/// when the schedule says so.
///
/// Everything that can run is a `runnable`: a mailbox with something to read, or a job of the
/// blocking pool. One step picks one of them at random and gives it one turn. A step costs a fixed
/// piece of virtual time; when nothing can run, time jumps to the earliest timer. One thread, no
/// real clock, no address and no hash order in any decision: a seed is a schedule.
#pragma once

#include "actors/runtime/detail/address.hpp"
#include "actors/runtime/world.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace weir::detail {

/// Something that is given turns, one at a time.
class runnable {
public:
  /// One turn; true when it wants another one at once.
  [[nodiscard]] virtual bool take_turn() = 0;
  /// The schedule lets go of it.
  virtual void dismissed() noexcept = 0;

protected:
  ~runnable() = default;
};

struct schedule_options {
  std::uint64_t seed = 1;
  std::chrono::nanoseconds step_cost{1'000};
  /// A job of the pool begins up to this much later than it could.
  std::chrono::nanoseconds job_delay_max{0};
  std::size_t pool_threads = 2;
  std::size_t pool_queue_limit = 65536;
  /// How many of the newest steps `describe` can tell.
  std::size_t trace_depth = 64;
};

class simulated_scheduler {
public:
  explicit simulated_scheduler(schedule_options options);
  simulated_scheduler(const simulated_scheduler&) = delete;
  simulated_scheduler& operator=(const simulated_scheduler&) = delete;
  ~simulated_scheduler() { drop_everything(); }

  /// Number of a new mailbox in the trace.
  [[nodiscard]] std::uint32_t enter(const std::string& name);
  /// Wants a turn; not entered twice before it got one.
  void ready(runnable& waiting) { ready_.push_back(&waiting); }
  /// Wakes a mailbox once time is `due`.
  void wake_at(std::chrono::nanoseconds due, address where);
  /// What the turn under way reads.
  void trace(std::uint32_t from, std::uint32_t to, const parcel& read);

  /// A job of the blocking pool; false when too many wait.
  [[nodiscard]] bool submit(std::function<void()> job);

  /// One turn of somebody, or a jump in time; false when nothing is left that could ever run.
  bool step();
  /// Forgets who wants a turn, all timers and all jobs: what a crash leaves of a process.
  void drop_everything() noexcept;

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return now_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  /// The newest steps, a line each.
  [[nodiscard]] std::string describe() const;

private:
  class pool_job;
  struct timer {
    std::chrono::nanoseconds due;
    std::uint64_t order;
    address where;           ///< A mailbox to wake, or
    runnable* job = nullptr; ///< a job that begins.
  };
  struct traced {
    std::chrono::nanoseconds at;
    std::uint32_t from;
    std::uint32_t to;
    parcel_kind kind;
    message_type type;
    bool is_reply;
  };

  /// Order of a heap whose front is the earliest timer.
  static bool later(const timer& a, const timer& b) noexcept;
  void arm(timer added);
  void expire();
  [[nodiscard]] std::size_t draw(std::size_t bound) noexcept;
  void begin_job(std::function<void()> job);
  void job_ended();
  void remember(const traced& line);

  const schedule_options options_;
  random_source random_;
  std::chrono::nanoseconds now_{0};
  std::uint64_t steps_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t hash_;
  std::vector<runnable*> ready_;
  std::vector<timer> timers_;
  std::uint64_t timers_ever_ = 0;
  std::deque<std::function<void()>> jobs_;
  std::size_t jobs_running_ = 0;
  std::vector<std::string> names_;
  std::vector<traced> newest_; ///< A ring of `trace_depth`.
  std::size_t oldest_ = 0;     ///< In it, once it is full.
};

} // namespace weir::detail
