#include "actors/runtime/blocking_pool.hpp"

#include "actors/runtime/processor_share.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace weir {
namespace {

std::int64_t nanoseconds_of(clockid_t which) {
  timespec now{};
  ::clock_gettime(which, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

/// What the system counts for the thread that made this object.
class thread_meter {
public:
  thread_meter() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~thread_meter() {
    if (file_ >= 0) ::close(file_);
  }
  thread_meter(const thread_meter&) = delete;
  thread_meter& operator=(const thread_meter&) = delete;

  /// Nothing where the system does not tell, or says that it ran for no time.
  [[nodiscard]] std::optional<processor_times> read() const {
    std::array<char, 96> text; // "RAN WAITED SLICES"
    const ssize_t count = file_ < 0 ? -1 : ::pread(file_, text.data(), text.size(), 0);
    if (count <= 0) return std::nullopt;
    const char* const end = text.data() + count;
    processor_times times;
    const auto first = std::from_chars(text.data(), end, times.ran);
    if (first.ec != std::errc() || first.ptr == end) return std::nullopt;
    if (std::from_chars(first.ptr + 1, end, times.waited).ec != std::errc()) return std::nullopt;
    return times.ran > 0 ? std::optional(times) : std::nullopt;
  }

private:
  int file_;
};

/// Of a thread that is to leave processors to others and has nothing to measure that by.
constexpr int lowest_priority = 19;

class pool_thread;
thread_local pool_thread* thread_of_pool = nullptr;

class thread_pool final : public blocking_pool {
public:
  explicit thread_pool(blocking_pool_options options) : options_(options) {
    ensure(options.threads > 0, "a pool has a thread");
    for (std::size_t i = 0; i < options.threads; ++i)
      threads_.emplace_back([this] { work(); });
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool() override { stop(); }

  bool submit(std::function<void()> job) override {
    {
      const std::lock_guard guard(mutex_);
      if (stopped_ || jobs_.size() >= options_.queue_limit) return false;
      jobs_.push_back(std::move(job));
    }
    work_came_.notify_one();
    return true;
  }

  void stop() override {
    {
      const std::lock_guard guard(mutex_);
      stopped_ = true;
    }
    work_came_.notify_all();
    rests_end_.notify_all();
    for (auto& thread : std::exchange(threads_, {}))
      thread.join();
  }

  void hurry(bool somebody_waits) override {
    {
      const std::lock_guard guard(mutex_);
      hurried_ = somebody_waits;
      if (somebody_waits) ++hurries_;
    }
    if (somebody_waits) rests_end_.notify_all();
  }

  /// Whether it lasted so long.
  bool rest(std::chrono::nanoseconds duration) {
    std::unique_lock lock(mutex_);
    const std::uint64_t before = hurries_;
    return !rests_end_.wait_for(lock, duration,
                                [&] { return stopped_ || hurried_ || hurries_ != before; });
  }

private:
  void work();

  const blocking_pool_options options_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable rests_end_;
  std::deque<std::function<void()>> jobs_;
  bool stopped_ = false;
  bool hurried_ = false;
  std::uint64_t hurries_ = 0; ///< A rest that one of them ended stays ended.
  std::vector<std::thread> threads_;
};

/// A thread of a pool, known to what runs on it.
class pool_thread {
public:
  pool_thread(thread_pool& pool, double share) : pool_(pool), share_(share) {
    if (share < 1.0) meter_.emplace();
    thread_of_pool = this;
  }
  ~pool_thread() { thread_of_pool = nullptr; }
  pool_thread(const pool_thread&) = delete;
  pool_thread& operator=(const pool_thread&) = delete;

  bool give_way(std::chrono::nanoseconds at_least) {
    const auto rest = std::max(at_least, std::chrono::nanoseconds(rest_due()));
    return rest <= std::chrono::nanoseconds(0) || pool_.rest(rest);
  }
  /// It is to keep to a share, and the system does not tell what it waited.
  [[nodiscard]] bool cannot_rest() const {
    std::ignore = nanoseconds_of(CLOCK_THREAD_CPUTIME_ID); // Has the system count up to now.
    return meter_ && !meter_->read();
  }

private:
  /// Looks again after so much work only.
  static constexpr std::int64_t look_after_ns = 250'000;

  [[nodiscard]] std::int64_t rest_due() {
    if (!meter_) return 0;
    const std::int64_t ran = nanoseconds_of(CLOCK_THREAD_CPUTIME_ID);
    if (ran - looked_after_ < look_after_ns) return 0;
    looked_after_ = ran;
    const auto totals = meter_->read();
    return totals ? share_.rest_due(nanoseconds_of(CLOCK_MONOTONIC), *totals) : 0;
  }

  thread_pool& pool_;
  processor_share share_;
  std::optional<thread_meter> meter_; ///< Nothing: it has all of a processor.
  std::int64_t looked_after_ = 0;
};

void thread_pool::work() {
  pool_thread here(*this, options_.crowded_share);
  // Best effort: without it messages are only slower behind computation.
  std::ignore = ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)),
                              ::getpriority(PRIO_PROCESS, 0) +
                                  (here.cannot_rest() ? lowest_priority : options_.nice));
  const sched_param no_priority{};
  if (options_.batch) std::ignore = ::sched_setscheduler(0, SCHED_BATCH, &no_priority);
  std::unique_lock lock(mutex_);
  for (;;) {
    work_came_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    std::ignore = here.give_way({});
    lock.lock();
  }
}

} // namespace

std::unique_ptr<blocking_pool> make_blocking_pool(blocking_pool_options options) {
  return std::make_unique<thread_pool>(options);
}

bool give_way(std::chrono::nanoseconds at_least) {
  return thread_of_pool != nullptr ? thread_of_pool->give_way(at_least)
                                   : at_least <= std::chrono::nanoseconds(0);
}

} // namespace weir
