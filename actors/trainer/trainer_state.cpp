#include "actors/trainer/trainer_state.hpp"

#include <string>
#include <utility>

namespace weir {

trainer_state::trainer_state(trainer_image initial, std::uint64_t earlier_max)
    : earlier_max_(earlier_max), image_(std::move(initial)) {
  forget_old_versions();
  check_invariants();
}

void trainer_state::forget_old_versions() {
  std::vector<earlier_version>& earlier = image_.earlier;
  if (earlier.size() <= earlier_max_) return;
  earlier.erase(earlier.begin(), earlier.end() - static_cast<std::ptrdiff_t>(earlier_max_));
}

result<void> trainer_state::prepare(std::uint64_t step, std::shared_ptr<const void> next) {
  ensure(next != nullptr, "the state after a step is a state");
  if (step != image_.step)
    return failure(errc::conflict, "step " + std::to_string(step) + " was trained, but step " +
                                       std::to_string(image_.step) + " is due");
  if (next_ != nullptr)
    return failure(errc::conflict,
                   "the state after step " + std::to_string(step) + " is set aside already");
  if (publish_due())
    return failure(errc::conflict, "version " + std::to_string(image_.version.value) +
                                       " must be published before step " + std::to_string(step) +
                                       " ends");
  next_ = std::move(next);
  return {};
}

result<weight_version> trainer_state::consume(std::uint64_t step, event_stream& events) {
  if (next_ == nullptr || step != image_.step)
    return failure(errc::conflict, "step " + std::to_string(step) + " cannot be consumed: step " +
                                       std::to_string(image_.step) +
                                       (next_ == nullptr ? " is not trained yet" : " is prepared"));
  image_.earlier.push_back({image_.version, std::move(image_.policy)});
  forget_old_versions();
  image_.step = step + 1;
  image_.version = image_.version.next();
  image_.policy = std::exchange(next_, nullptr);
  events.append(step_finished_event{.step = step, .version = image_.version});
  return image_.version;
}

result<void> trainer_state::adopt(std::shared_ptr<const void> warmed_up) {
  ensure(warmed_up != nullptr, "the end of a warm-up is a state");
  if (image_.step != 0 || next_ != nullptr || published_)
    return failure(errc::conflict, "a warm-up ends before version 0 is published; the trainer is "
                                   "at step " +
                                       std::to_string(image_.step));
  image_.policy = std::move(warmed_up);
  return {};
}

result<void> trainer_state::published(weight_version version) {
  if (version != image_.version)
    return failure(errc::conflict, "version " + std::to_string(version.value) +
                                       " is published, but the captured state is version " +
                                       std::to_string(image_.version.value));
  published_ = version;
  return {};
}

void trainer_state::check_invariants() const {
  ensure(image_.policy != nullptr, "a cut always finds a policy");
  ensure(image_.version.value == image_.step, "each finished step makes one version");
  ensure(!published_ || *published_ <= image_.version, "nothing is published before its consume");
  ensure(next_ == nullptr || !publish_due(), "a step ends after its version was published");
  std::uint64_t expected = image_.version.value - image_.earlier.size();
  for (const earlier_version& one : image_.earlier) {
    ensure(one.policy != nullptr, "an earlier version has its weights");
    ensure(one.version.value == expected++, "earlier versions have no gap up to the captured one");
  }
}

} // namespace weir
