/// A small fork-join pool: the one place of the kernels that owns threads.
///
/// Who takes which task is left to chance, so a task's result must depend on its index only; every
/// user in this folder writes to memory of its own task and adds up afterwards in a fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weir::kernels {

/// Threads that the machine runs at once, at least 1.
[[nodiscard]] std::uint32_t hardware_threads() noexcept;

struct thread_pool_options {
  std::uint32_t threads = 1; ///< The calling thread included.
  /// Added to the niceness of the pool's own threads (Linux): training then yields to generation.
  std::int32_t niceness = 0;
};

/// Threads that sleep on a condition variable until there is work. One caller at a time.
///
/// Owned by the trainer or the decoder that uses it; joins its threads when destroyed. A task must
/// not call `run` on the same pool.
class thread_pool {
public:
  explicit thread_pool(const thread_pool_options& options);
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool();

  /// Calls task(index, thread) once for each index below `count`, in any order, on at most
  /// `threads()` threads, and returns when all are done. `thread` < threads() is never used by two
  /// tasks at once: it selects scratch memory. Allocates nothing.
  template <class Task>
  void run(std::size_t count, Task& task) {
    const auto call = [](void* context, std::size_t index, std::size_t thread) {
      (*static_cast<Task*>(context))(index, thread);
    };
    run_erased(count, call, &task);
  }

  [[nodiscard]] std::uint32_t threads() const noexcept { return threads_; }

private:
  using erased_task = void (*)(void* context, std::size_t index, std::size_t thread);
  struct shared_state;

  void run_erased(std::size_t count, erased_task task, void* context);

  std::uint32_t threads_;
  std::unique_ptr<shared_state> state_;
};

} // namespace weir::kernels
