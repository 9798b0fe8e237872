#include "kernels/device_stream.hpp"

#include "kernels/device_cuda.hpp"

#ifdef __linux__
#  include <unistd.h>
#endif

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace weir::kernels {

namespace {

class cpu_context final : public device_context {
public:
  result<void> bind() override { return {}; }
  result<void> synchronize() override { return {}; }
  void* native() const noexcept override { return nullptr; }
};

struct piece {
  std::function<void()> work;
  std::function<void()> on_done;
};

/// The queue and the thread; what a piece of work ends with is the device's affair.
class threaded_stream final : public device_stream {
public:
  threaded_stream(const device& where, const device_stream_options& options,
                  std::unique_ptr<device_context> context)
      : where_(where), options_(options), context_(std::move(context)) {
    thread_ = std::thread([this] { run(); });
  }

  ~threaded_stream() override {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  result<void> submit(std::function<void()> work, std::function<void()> on_done) override {
    ensure(static_cast<bool>(work), "a piece of work can be called");
    ensure(std::this_thread::get_id() != thread_.get_id(), "a stream does not feed itself");
    {
      const std::lock_guard lock(mutex_);
      if (failed_) return failure(*failed_);
      if (pending_ == options_.queue_limit)
        return failure(errc::exhausted, "the stream of " + to_string(where_) + " holds " +
                                            std::to_string(pending_) +
                                            " pieces of work, its limit: wait for one to end");
      queue_.push_back({std::move(work), std::move(on_done)});
      ++pending_;
    }
    wake_.notify_one();
    return {};
  }

  std::size_t pending() const override {
    const std::lock_guard lock(mutex_);
    return pending_;
  }

  device where() const noexcept override { return where_; }
  void* native() const noexcept override { return context_->native(); }

private:
  void run() {
#ifdef __linux__
    // On Linux a thread has a niceness of its own; a refusal only costs the politeness.
    if (options_.niceness != 0) std::ignore = nice(options_.niceness);
#endif
    {
      const std::lock_guard lock(mutex_);
      remember(context_->bind());
    }
    while (auto next = take()) {
      next->work();
      auto done = context_->synchronize();
      // Its place is free before its owner hears of it: the owner may submit the next one at once.
      end_piece(std::move(done));
      if (next->on_done) next->on_done();
    }
  }

  void remember(result<void> done) {
    if (!done && !failed_) failed_ = std::move(done).error();
  }

  void end_piece(result<void> done) {
    const std::lock_guard lock(mutex_);
    remember(std::move(done));
    --pending_;
  }

  std::optional<piece> take() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return std::nullopt;
    std::optional<piece> next(std::move(queue_.front()));
    queue_.pop_front();
    return next;
  }

  const device where_;
  const device_stream_options options_;
  const std::unique_ptr<device_context> context_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<piece> queue_;
  std::size_t pending_ = 0;
  bool closed_ = false;
  std::optional<error> failed_;
  std::thread thread_; ///< Last: everything that it uses exists before it starts.
};

} // namespace

result<std::unique_ptr<device_stream>> device_stream::create(const device& where,
                                                             const device_stream_options& options) {
  if (options.queue_limit == 0)
    return failure(errc::invalid_argument, "a device stream with queue_limit 0 takes no work");
  if (options.niceness < 0 || options.niceness > 19)
    return failure(errc::invalid_argument,
                   "niceness is " + std::to_string(options.niceness) + ": it must be 0 to 19");
  if (where.kind == device_kind::cpu)
    return std::make_unique<threaded_stream>(where, options, std::make_unique<cpu_context>());
  auto context = make_cuda_context(where.ordinal);
  if (!context) return failure(context.error());
  return std::make_unique<threaded_stream>(where, options, std::move(*context));
}

} // namespace weir::kernels
