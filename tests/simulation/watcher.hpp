/// Who stands around a simulated run: a watcher that remembers how it ended and asks for a
/// checkpoint at any time, as a signal or a user would, and a reaper of the checkpoint actor.
#pragma once

#include "actors/protocols.hpp"
#include "actors/runtime/actor.hpp"
#include "actors/runtime/detail/relay.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace weir::sim {

/// What the watcher learned; outlives its graph.
struct observed {
  std::optional<std::string> finished; ///< Why the job is done.
  std::uint64_t saves_refused = 0;
};

/// Ends the checkpoint actor now and then, as a fault of its own would: its supervisor restarts it.
class reaper final : public actor {
public:
  using protocol = weir::protocol<>;

  /// About `pause` apart, while the job is not done.
  reaper(context ctx, std::chrono::nanoseconds pause, std::shared_ptr<const observed> seen)
      : actor(ctx), self_(std::move(ctx)), pause_(pause), seen_(std::move(seen)),
        random_(env().random("deaths of life " + std::to_string(life().value))) {}

private:
  /// A life must be able to save in the end.
  static constexpr int deaths_max = 4;

  task<void> run() override {
    const auto victim = self_.find<checkpoint_protocol>("checkpoint");
    for (int death = 0; death < deaths_max && !seen_->finished; ++death) {
      const std::uint64_t pause = random_.below(static_cast<std::uint64_t>(pause_.count()) * 2);
      co_await clock().after(std::chrono::nanoseconds(static_cast<std::int64_t>(pause)));
      detail::end_as_failure(victim.where(), error{errc::internal, "the reaper came"});
    }
  }

  const context self_;
  const std::chrono::nanoseconds pause_;
  const std::shared_ptr<const observed> seen_;
  random_source random_;
};

class watcher final : public actor {
public:
  using protocol = observer_protocol;

  /// Saves are about `pause` apart; 0: it asks for none.
  watcher(context ctx, std::chrono::nanoseconds pause, std::shared_ptr<observed> seen)
      : actor(ctx), self_(std::move(ctx)), pause_(pause), seen_(std::move(seen)),
        random_(env().random("saves of life " + std::to_string(life().value))) {
    serve(&watcher::on_step);
    serve(&watcher::on_warmup);
    serve(&watcher::on_finished);
    serve(&watcher::on_published);
  }

private:
  /// At most this often in one life: a save that is never over must not keep a life busy for ever.
  static constexpr int saves_max = 200;

  task<void> run() override {
    const auto keeper = self_.find<checkpoint_protocol>("checkpoint");
    for (int save = 0; pause_.count() > 0 && save < saves_max; ++save) {
      const std::uint64_t pause = random_.below(static_cast<std::uint64_t>(pause_.count()) * 2);
      co_await clock().after(std::chrono::nanoseconds(static_cast<std::int64_t>(pause)));
      RequestCheckpointT want;
      want.reason = "at any instant";
      auto request = pack(want);
      auto saved = co_await keeper.ask(request, within(std::chrono::seconds(60)));
      if (!saved) ++seen_->saves_refused; // A barrier that was cut short: the next one may pass.
    }
  }

  task<void> on_step(message<StepFinished>) { co_return; }
  task<void> on_warmup(message<WarmupAdvanced>) { co_return; }
  task<void> on_published(message<CheckpointPublished>) { co_return; }
  task<result<message<RunFinishNoted>>> on_finished(message<RunFinished> request) {
    seen_->finished = text_of(request->reason());
    RunFinishNotedT noted;
    noted.steps = request->steps();
    co_return pack(noted);
  }

  const context self_;
  const std::chrono::nanoseconds pause_;
  const std::shared_ptr<observed> seen_;
  random_source random_;
};

} // namespace weir::sim
