#include "actors/checkpoint/write_terms.hpp"

#include "actors/runtime/blocking_pool.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {
/// What may come at once: this part of a second's bytes.
constexpr std::uint64_t bursts_per_second = 8;
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

dataplane::write_pace write_terms::pace(const clock& time) const {
  if (rules_.bytes_per_second == 0) return {};
  const dataplane::write_pacer fresh = pacer_of(rules_);
  const auto pacer = std::make_shared<dataplane::write_pacer>(fresh);
  return [fresh, pacer, &time](std::uint64_t bytes) -> result<void> {
    // What was written in a hurry is not made up for afterwards.
    if (!give_way(std::chrono::nanoseconds(pacer->take(bytes, time.now())))) *pacer = fresh;
    return {};
  };
}

dataplane::write_pacer pacer_of(const write_rules& rules) {
  const std::uint64_t rate = rules.bytes_per_second;
  return {rate, std::max<std::uint64_t>(rate / bursts_per_second, 1)};
}

} // namespace weir
