#include "benchmarks/caf_baseline.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <chrono>
#include <future>

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(weir::frame)

namespace weir::benchmarks {

struct caf_ping_pong::parts {
  explicit parts(std::size_t workers) : system(configure(config, workers)) {}

  static caf::actor_system_config& configure(caf::actor_system_config& config,
                                             std::size_t workers) {
    config.set("scheduler.policy", caf::atom("stealing"));
    config.set("scheduler.max-threads", workers);
    config.set("work-stealing.relaxed-sleep-duration", caf::timespan(100'000));
    return config;
  }

  caf::actor_system_config config;
  caf::actor_system system;
};

namespace {

struct asker_state {
  frame request;
  std::size_t left = 0;
  std::promise<void>* done = nullptr;
};

void ask_again(caf::stateful_actor<asker_state>* self, const caf::actor& asked) {
  if (self->state.left-- == 0) {
    self->state.done->set_value();
    self->quit();
    return;
  }
  self->request(asked, caf::infinite, self->state.request).then([self, asked](const frame&) {
    ask_again(self, asked);
  });
}

} // namespace

caf_ping_pong::caf_ping_pong(std::size_t workers) : parts_(std::make_unique<parts>(workers)) {}
caf_ping_pong::~caf_ping_pong() = default;

double caf_ping_pong::round_trip_ns(const frame& request, const frame& reply, std::size_t rounds) {
  std::promise<void> done;
  auto ended = done.get_future();
  const auto answering = parts_->system.spawn([reply](caf::event_based_actor*) -> caf::behavior {
    return {[reply](const frame&) { return reply; }};
  });
  const auto begin = std::chrono::steady_clock::now();
  parts_->system.spawn([&](caf::stateful_actor<asker_state>* self) {
    self->state = {request, rounds, &done};
    ask_again(self, answering);
  });
  ended.wait();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  caf::anon_send_exit(answering, caf::exit_reason::user_shutdown);
  return took.count() / static_cast<double>(rounds);
}

} // namespace weir::benchmarks
