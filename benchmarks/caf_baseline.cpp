#include "benchmarks/caf_baseline.hpp"

#include "benchmarks/crowd_run.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(weir::frame)

namespace weir::benchmarks {

namespace {

/// A system with the scheduler that the runtime uses, and its options (detail/caf_bridge.cpp).
struct caf_system {
  explicit caf_system(std::size_t workers) : system(configure(config, workers)) {}

  static caf::actor_system_config& configure(caf::actor_system_config& config,
                                             std::size_t workers) {
    config.set("scheduler.policy", caf::atom("stealing"));
    config.set("scheduler.max-threads", workers);
    config.set("work-stealing.moderate-poll-attempts", 0);
    config.set("work-stealing.relaxed-sleep-duration", caf::timespan(1'000'000));
    return config;
  }

  caf::actor_system_config config;
  caf::actor_system system;
};

struct asker_state {
  frame request;
  std::size_t left = 0;
  std::promise<void>* done = nullptr;
};
using asker = caf::stateful_actor<asker_state>;

/// Counts one round; false after the last one.
bool next_round(asker* self) {
  if (self->state.left-- != 0) return true;
  self->state.done->set_value();
  self->quit();
  return false;
}

void ask_again(asker* self, const caf::actor& asked) {
  if (!next_round(self)) return;
  self->request(asked, caf::infinite, self->state.request).then([self, asked](const frame&) {
    ask_again(self, asked);
  });
}

void send_again(asker* self, const caf::actor& asked) {
  if (next_round(self)) self->send(asked, self->state.request);
}

} // namespace

struct caf_ping_pong::parts : caf_system {
  using caf_system::caf_system;

  /// `begin(asker, echo)` starts the rounds.
  template <class Begin>
  double measure(const frame& request, const frame& reply, std::size_t rounds, Begin begin_rounds) {
    std::promise<void> done;
    auto ended = done.get_future();
    const auto answering = system.spawn([reply](caf::event_based_actor*) -> caf::behavior {
      return {[reply](const frame&) { return reply; }};
    });
    const auto begin = std::chrono::steady_clock::now();
    system.spawn([&, begin_rounds](asker* self) {
      self->state = {request, rounds, &done};
      begin_rounds(self, answering);
    });
    ended.wait();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    caf::anon_send_exit(answering, caf::exit_reason::user_shutdown);
    return took.count() / static_cast<double>(rounds);
  }
};

caf_ping_pong::caf_ping_pong(std::size_t workers) : parts_(std::make_unique<parts>(workers)) {}
caf_ping_pong::~caf_ping_pong() = default;

double caf_ping_pong::request_ns(const frame& request, const frame& reply, std::size_t rounds) {
  return parts_->measure(request, reply, rounds, &ask_again);
}

double caf_ping_pong::send_ns(const frame& request, const frame& reply, std::size_t rounds) {
  const auto begin = [](asker* self, const caf::actor& asked) {
    self->become([self, asked](const frame&) { send_again(self, asked); });
    send_again(self, asked);
  };
  return parts_->measure(request, reply, rounds, begin);
}

namespace {

/// What a member of a crowd is told to do.
enum command : int { begin_asking, answer_held };

/// One run: counts what all members do, and says when it is complete.
struct member_state {
  caf::actor next;
  std::vector<caf::response_promise> held;
};
using member = caf::stateful_actor<member_state>;

} // namespace

struct caf_crowd::parts : caf_system {
  parts(std::size_t workers, std::size_t actors, std::size_t each, frame asked, frame answer)
      : caf_system(workers), request(std::move(asked)), reply(std::move(answer)) {
    run.in_flight = each;
    for (std::size_t i = 0; i < actors; ++i)
      members.push_back(system.spawn([this](member* self) { return behave(self); }));
    for (std::size_t i = 0; i < actors; ++i)
      caf::anon_send(members[i], members[(i + 1) % actors]);
  }

  caf::behavior behave(member* self) {
    return {
        [self](const caf::actor& next) { self->state.next = next; },
        [this, self](int what) {
          if (what == begin_asking) return ask_all(self);
          for (auto& each : self->state.held)
            each.deliver(reply);
          self->state.held.clear();
        },
        [this, self](const frame&) -> caf::result<frame> {
          if (!run.holding) return reply;
          auto later = self->make_response_promise();
          self->state.held.push_back(later);
          if (++run.arrived == run.expected) run.all_arrived.set_value();
          return later;
        },
    };
  }
  void ask_all(member* self) {
    for (std::size_t i = 0; i < run.in_flight; ++i) {
      self->request(self->state.next, caf::infinite, request).then([this](const frame&) {
        if (++run.answered == run.expected) run.all_answered.set_value();
      });
    }
  }

  void begin(bool holding) {
    run.expected = members.size() * run.in_flight;
    run.begin(holding);
    tell_all(begin_asking);
  }
  void tell_all(int what) {
    for (const caf::actor& each : members)
      caf::anon_send(each, what);
  }

  frame request;
  frame reply;
  crowd_run run;
  std::vector<caf::actor> members;
};

caf_crowd::caf_crowd(std::size_t workers, std::size_t actors, std::size_t in_flight, frame request,
                     frame reply)
    : parts_(std::make_unique<parts>(workers, actors, in_flight, std::move(request),
                                     std::move(reply))) {}

caf_crowd::~caf_crowd() {
  for (const caf::actor& each : parts_->members)
    caf::anon_send_exit(each, caf::exit_reason::user_shutdown);
}

void caf_crowd::hold(const std::function<void()>& pending) {
  parts_->begin(true);
  parts_->run.all_arrived.get_future().wait();
  pending();
  parts_->tell_all(answer_held);
  parts_->run.all_answered.get_future().wait();
}

void caf_crowd::run() {
  parts_->begin(false);
  parts_->run.all_answered.get_future().wait();
}

} // namespace weir::benchmarks
