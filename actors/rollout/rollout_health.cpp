// The rollout actor's side of `generator_health`: probes, and the wait for a generator that serves.
#include "actors/rollout/rollout.hpp"
#include "actors/runtime/combinators.hpp"

#include <utility>

namespace weir {

namespace {

std::optional<weight_version> version_of(const ProbeAnswered& answer) {
  if (answer.live_version() < 0) return std::nullopt;
  return weight_version(static_cast<std::uint64_t>(answer.live_version()));
}

} // namespace

/// Every round is over before the next one begins: a probe waits for less than an interval.
task<void> rollout::watch_generators() {
  while (true) {
    co_await clock().after(std::chrono::nanoseconds(health_.options().probe_interval_ns));
    for (std::size_t generator = 0; generator < health_.generators(); ++generator)
      children().spawn(&rollout::probe, this, generator);
    if (auto fine = health_.judge(clock().now()); !fine) {
      fail(std::move(fine.error()));
      co_return;
    }
  }
}

task<void> rollout::probe(std::size_t generator) {
  auto request = pack(ProbeT());
  const auto limit = within(std::chrono::nanoseconds(health_.options().probe_timeout_ns));
  auto answer = co_await peers_.generators[generator].ask(request, limit);
  const std::int64_t now = clock().now();
  const bool healthy = health_.healthy(generator);
  if (answer)
    health_.answered(generator, version_of(**answer), now);
  else
    health_.missed(generator, answer.error(), now);
  if (health_.healthy(generator) == healthy) co_return;
  const std::string name = peers_.generators[generator].name();
  log(log_level::warning,
      name + (healthy ? " is unhealthy: " + to_string(answer.error()) : " is healthy again"));
  health_moved_.raise();
}

/// The generator of the group's next attempt. While none is healthy it waits: `judge` ends that.
task<std::size_t> rollout::take_generator(group_ptr group) {
  const weight_version least(group->stamp.admission_version);
  while (true) {
    if (const auto chosen = health_.choose(least, group->failed_at)) co_return *chosen;
    co_await health_moved_.raised();
  }
}

} // namespace weir
