#include "kernels/parallel.hpp"

#include "messages/error.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#ifdef __linux__
#  include <sys/resource.h>
#  include <unistd.h>
#endif

namespace weir::kernels {

namespace {

/// Niceness belongs to a thread on Linux; elsewhere it would slow the whole process: leave it.
void lower_priority([[maybe_unused]] std::int32_t niceness) {
#ifdef __linux__
  if (niceness == 0) return;
  const auto self = static_cast<id_t>(gettid());
  // Refused only for a negative value without the right to it: then the priority stays.
  static_cast<void>(setpriority(PRIO_PROCESS, self, niceness));
#endif
}

} // namespace

std::uint32_t hardware_threads() noexcept {
  return std::max(1U, std::thread::hardware_concurrency());
}

struct thread_pool::shared_state {
  std::mutex mutex;
  std::condition_variable work_came;
  std::condition_variable work_done;
  std::uint64_t round = 0; ///< Which call of `run` the fields below belong to.
  bool stopping = false;
  std::size_t count = 0;
  std::size_t next = 0;     ///< First index that nobody has taken.
  std::size_t finished = 0; ///< Tasks that have returned.
  erased_task task = nullptr;
  void* context = nullptr;
  std::vector<std::thread> threads;

  /// Takes and runs tasks until none is left. Called and left with the lock held.
  void take_tasks(std::unique_lock<std::mutex>& lock, std::size_t thread) {
    while (next < count) {
      const std::size_t index = next++;
      const erased_task run_one = task;
      void* const argument = context;
      lock.unlock();
      run_one(argument, index, thread);
      lock.lock();
      if (++finished == count) work_done.notify_one();
    }
  }

  void serve(std::size_t thread, std::int32_t niceness) {
    lower_priority(niceness);
    std::unique_lock lock(mutex);
    std::uint64_t seen = 0;
    while (true) {
      work_came.wait(lock, [&] { return stopping || round != seen; });
      if (stopping) return;
      seen = round;
      take_tasks(lock, thread);
    }
  }
};

thread_pool::thread_pool(const thread_pool_options& options)
    : threads_(std::max(options.threads, 1U)), state_(std::make_unique<shared_state>()) {
  for (std::size_t thread = 1; thread < threads_; ++thread)
    state_->threads.emplace_back(
        [this, thread, niceness = options.niceness] { state_->serve(thread, niceness); });
}

thread_pool::~thread_pool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work_came.notify_all();
  for (std::thread& thread : state_->threads)
    thread.join();
}

void thread_pool::run_erased(std::size_t count, erased_task task, void* context) {
  if (threads_ == 1 || count <= 1) {
    for (std::size_t index = 0; index < count; ++index)
      task(context, index, 0);
    return;
  }
  std::unique_lock lock(state_->mutex);
  ensure(state_->finished == state_->count, "a pool runs one set of tasks at a time");
  state_->task = task;
  state_->context = context;
  state_->count = count;
  state_->next = 0;
  state_->finished = 0;
  ++state_->round;
  state_->work_came.notify_all();
  state_->take_tasks(lock, 0);
  state_->work_done.wait(lock, [this] { return state_->finished == state_->count; });
}

} // namespace weir::kernels
