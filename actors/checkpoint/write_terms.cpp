#include "actors/checkpoint/write_terms.hpp"

#include <algorithm>
#include <condition_variable>
#include <utility>

namespace weir {

namespace {

/// What may come at once: this part of a second's bytes.
constexpr std::uint64_t bursts_per_second = 8;

/// Keeps a pool thread waiting; there is nobody to wake it, and nothing waits for long.
class pause_room {
public:
  void stay(std::chrono::nanoseconds rest) {
    std::unique_lock lock(mutex_);
    left_.wait_for(lock, rest, [] { return false; });
  }

private:
  std::mutex mutex_;
  std::condition_variable left_;
};

struct paced_writer {
  pauses due;
  pause_room room;
};

} // namespace

void write_terms::published(std::string directory, epoch_id epoch) {
  const std::lock_guard guard(mutex_);
  directory_ = std::move(directory);
  epoch_ = epoch;
}

void write_terms::wrote(std::shared_ptr<const dataplane::snapshot_files> files) {
  const std::lock_guard guard(mutex_);
  if (!newest_ || newest_->epoch < files->epoch) newest_ = std::move(files);
}

void write_terms::forget() {
  const std::lock_guard guard(mutex_);
  base_ = nullptr;
  newest_ = nullptr;
}

std::optional<dataplane::snapshot_base> write_terms::base() {
  const std::lock_guard guard(mutex_);
  if (newest_ && newest_->epoch == epoch_) base_ = std::exchange(newest_, nullptr);
  if (base_ && base_->epoch != epoch_) base_ = nullptr;
  if (!base_ || directory_.empty()) return std::nullopt;
  return dataplane::snapshot_base{directory_, base_};
}

dataplane::write_pace write_terms::pace(const world& env) const {
  if (rules_.bytes_per_second == 0 || urgent_ || env.schedule() != nullptr) return {};
  const std::shared_ptr<paced_writer> writer(new paced_writer{pauses(rules_), {}});
  return [writer, &env](std::uint64_t bytes) -> result<void> {
    const auto rest = writer->due.after(bytes, env.clock().now());
    if (rest > std::chrono::nanoseconds(0)) writer->room.stay(rest);
    return {};
  };
}

pauses::pauses(const write_rules& rules)
    : pacer_(rules.bytes_per_second,
             std::max<std::uint64_t>(rules.bytes_per_second / bursts_per_second, 1)),
      left_(rules.pauses_max) {}

std::chrono::nanoseconds pauses::after(std::uint64_t bytes, std::int64_t now_ns) {
  const auto rest = std::min(std::chrono::nanoseconds(pacer_.take(bytes, now_ns)), left_);
  left_ -= rest;
  return rest;
}

} // namespace weir
