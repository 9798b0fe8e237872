#include "actors/runtime/blocking_pool.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace weir {
namespace {

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
    for (auto& thread : std::exchange(threads_, {}))
      thread.join();
  }

private:
  void work() {
    // Best effort: without it messages are only slower behind computation.
    std::ignore = ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)),
                                ::getpriority(PRIO_PROCESS, 0) + options_.nice);
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
      lock.lock();
    }
  }

  const blocking_pool_options options_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  std::deque<std::function<void()>> jobs_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

} // namespace

std::unique_ptr<blocking_pool> make_blocking_pool(blocking_pool_options options) {
  return std::make_unique<thread_pool>(options);
}

} // namespace weir
