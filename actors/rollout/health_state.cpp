#include "actors/rollout/health_state.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weir {

namespace {

std::string seconds_of(std::int64_t time_ns) {
  return std::to_string(time_ns / 1'000'000'000) + " s";
}

} // namespace

health_state::health_state(health_options options, std::vector<std::string> names)
    : options_(options) {
  ensure(options.unhealthy_threshold >= 1, "some silence makes a generator unhealthy");
  ensure(options.healthy_threshold >= 1, "some answer makes a generator healthy");
  for (std::string& name : names)
    generators_.push_back({.name = std::move(name)});
}

void health_state::answered(std::size_t generator, std::optional<weight_version> live,
                            std::int64_t now_ns) {
  probed& one = generators_.at(generator);
  one.live = live;
  if (one.healthy) {
    one.in_a_row = 0;
    return;
  }
  if (++one.in_a_row < options_.healthy_threshold) return;
  one.healthy = true;
  one.in_a_row = 0;
  note_minimum(now_ns);
}

void health_state::missed(std::size_t generator, const error& why, std::int64_t now_ns) {
  probed& one = generators_.at(generator);
  one.live.reset(); // Whoever comes back may have lost its weights.
  one.why = to_string(why);
  if (!one.healthy) {
    one.in_a_row = 0;
    return;
  }
  if (one.in_a_row == 0) one.silent_since_ns = now_ns;
  if (++one.in_a_row < options_.unhealthy_threshold) return;
  one.healthy = false;
  one.in_a_row = 0;
  note_minimum(now_ns);
}

void health_state::saw(std::size_t generator, weight_version version) {
  probed& one = generators_.at(generator);
  one.live = std::max(one.live, std::optional(version));
}

void health_state::note_minimum(std::int64_t now_ns) {
  if (healthy_generators() >= options_.min_healthy)
    short_since_ns_.reset();
  else if (!short_since_ns_)
    short_since_ns_ = now_ns;
}

bool health_state::healthy(std::size_t generator) const {
  return generators_.at(generator).healthy;
}

std::uint64_t health_state::healthy_generators() const {
  return static_cast<std::uint64_t>(std::ranges::count_if(generators_, &probed::healthy));
}

result<void> health_state::judge(std::int64_t now_ns) const {
  if (!short_since_ns_ || now_ns - *short_since_ns_ <= options_.patience_ns) return {};
  std::string text =
      std::to_string(healthy_generators()) + " of " + std::to_string(generators_.size()) +
      " generators are healthy, fewer than the " + std::to_string(options_.min_healthy) +
      " of async_rl.generator_health.min_healthy for " + seconds_of(now_ns - *short_since_ns_);
  for (const probed& one : generators_)
    if (!one.healthy)
      text += "; " + one.name + " answers no probe since " +
              seconds_of(now_ns - one.silent_since_ns) + " (" + one.why + ")";
  return failure(errc::unavailable, std::move(text));
}

std::optional<std::size_t> health_state::choose(weight_version least,
                                                std::optional<std::size_t> avoided) const {
  std::optional<std::size_t> best;
  const auto rank = [&](std::size_t index) {
    const probed& one = generators_[index];
    return std::tuple(!one.live || *one.live < least, index == avoided, one.outstanding);
  };
  for (std::size_t index = 0; index < generators_.size(); ++index)
    if (generators_[index].healthy && (!best || rank(index) < rank(*best))) best = index;
  return best;
}

void health_state::ended(std::size_t generator) {
  probed& one = generators_.at(generator);
  ensure(one.outstanding > 0, "a group that ended had begun");
  --one.outstanding;
}

std::uint64_t health_state::outstanding(std::size_t generator) const {
  return generators_.at(generator).outstanding;
}

} // namespace weir
