#include "actors/trainer/weight_publisher.hpp"

#include "actors/runtime/combinators.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

std::string in_seconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

} // namespace

weight_publisher::weight_publisher(const weir::clock& time,
                                   std::vector<handle<generator_protocol>> generators,
                                   weight_publisher_options options,
                                   std::function<void(std::string)> say)
    : clock_(time), generators_(std::move(generators)), options_(options), say_(std::move(say)),
      receivers_(generators_.size()) {
  ensure(!generators_.empty(), "there is a generator to publish to");
}

task<result<void>> weight_publisher::publish(std::vector<published_version> versions) {
  ensure(!versions.empty(), "there is a version to publish");
  const bool first = versions_.empty();
  versions_ = std::move(versions);
  scope feeds;
  for (std::size_t i = 0; i < generators_.size(); ++i)
    feeds.spawn(&weight_publisher::feed, this, i);
  co_await feeds.joined();
  for (std::size_t i = 0; first && i < generators_.size(); ++i)
    attending_.spawn(&weight_publisher::attend, this, i);
  for (receiver& one : receivers_)
    if (one.refused) co_return failure(*std::exchange(one.refused, std::nullopt));
  auto served = co_await await_one();
  co_return std::move(served);
}

/// With every generator down, the version is live once the first one is back.
task<result<void>> weight_publisher::await_one() {
  auto served = co_await with_deadline(somebody_serves(), within(options_.transfer_timeout));
  if (served) co_return result<void>();
  std::string names;
  for (std::size_t i = 0; i < generators_.size(); ++i)
    names += (i == 0 ? "" : ", ") + generators_[i].name();
  co_return failure(errc::timed_out, "weights of version " +
                                         std::to_string(versions_.back().version.value) +
                                         " are live nowhere: none of " + names + " came back in " +
                                         in_seconds(options_.transfer_timeout));
}

task<void> weight_publisher::somebody_serves() {
  const auto serves = [](const receiver& one) { return one.has.has_value(); };
  while (std::ranges::none_of(receivers_, serves))
    co_await moved_.raised();
}

/// Sends what the generator lacks, in order. One feed at a time: versions never overtake.
task<void> weight_publisher::feed(std::size_t index) {
  receiver& one = receivers_[index];
  while (one.busy)
    co_await moved_.raised();
  one.busy = true;
  while (const published_version* next = next_for(index)) {
    const weight_version version = next->version;
    auto request = next->weights;
    auto live = co_await generators_[index].ask(request, within(options_.transfer_timeout));
    if (live) {
      one.has = version;
      continue;
    }
    if (live.error().code == errc::unavailable) { // It is restarted; `attend` feeds it again.
      one.has.reset();
      break;
    }
    const std::string what = generators_[index].name() + " did not take the weights of version " +
                             std::to_string(version.value);
    one.refused =
        live.error().code == errc::timed_out
            ? error{errc::timed_out, what + " in " + in_seconds(options_.transfer_timeout) +
                                         ": it hangs, or the transfer was lost"}
            : error{live.error().code, what + ": " + live.error().text};
    break;
  }
  one.busy = false;
  moved_.raise();
}

/// Notices that the generator has lost its weights, and gives them again. Ends with its owner.
task<void> weight_publisher::attend(std::size_t index) {
  const auto request = pack(AwaitWeightsLostT());
  while (true) {
    if (receivers_[index].has) {
      auto lost = co_await generators_[index].ask(request, within(options_.attendance));
      if (!lost && lost.error().code == errc::timed_out) continue;
      if (!lost && lost.error().code != errc::unavailable) co_return; // Our own end, for one.
      receivers_[index].has.reset();
      say_(generators_[index].name() +
           " has lost its weights, and serves nobody until it has them again");
    }
    co_await feed(index);
    if (receivers_[index].refused) co_return; // The next publish reports it.
    if (receivers_[index].has)
      say_(generators_[index].name() + " has weights again, of version " +
           std::to_string(receivers_[index].has->value));
    else
      co_await clock_.after(options_.retry_pause);
  }
}

/// The oldest version that the generator has not taken yet.
const published_version* weight_publisher::next_for(std::size_t index) const {
  const auto& has = receivers_[index].has;
  const auto lacking = [&has](const published_version& one) { return !has || *has < one.version; };
  const auto next = std::ranges::find_if(versions_, lacking);
  return next != versions_.end() ? &*next : nullptr;
}

} // namespace weir
