#include "actors/checkpoint/pool_jobs.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

namespace weir {

namespace {

constexpr std::size_t helpers_max = 16;

/// Jobs that are taken one at a time by whoever is free. A helper that comes too late finds none
/// left, and looks at nothing else.
class shared_jobs {
public:
  explicit shared_jobs(std::span<const std::function<void()>> jobs)
      : jobs_(jobs), left_(jobs.size()) {}

  void work() {
    for (std::size_t at = next_++; at < jobs_.size(); at = next_++) {
      jobs_[at]();
      if (--left_ == 0) left_.notify_all();
    }
  }
  void wait_for_others() const {
    for (std::size_t left = left_; left != 0; left = left_)
      left_.wait(left);
  }

private:
  std::span<const std::function<void()>> jobs_; ///< The caller's, until none is left.
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> left_;
};

} // namespace

dataplane::job_runner jobs_on(blocking_pool& pool) {
  return [&pool](std::span<const std::function<void()>> jobs) {
    const auto all = std::make_shared<shared_jobs>(jobs);
    const std::size_t helpers =
        std::min(jobs.size() - std::min<std::size_t>(jobs.size(), 1), helpers_max);
    for (std::size_t helper = 0; helper < helpers; ++helper)
      if (!pool.submit([all] { all->work(); })) break;
    all->work();
    all->wait_for_others();
  };
}

} // namespace weir
