/// What several harnesses ask, and how: an actor that answers at once, and a child that asks once.
#pragma once

#include "actors/graph.hpp"

#include <chrono>

namespace weir::benchmarks {

using echo_protocol = protocol<call<Probe, ProbeAnswered>>;

/// Answers with one message that was packed before: what is measured is the way.
class echo : public actor {
public:
  using protocol = echo_protocol;
  explicit echo(context ctx) : actor(std::move(ctx)), reply_(pack(ProbeAnsweredT())) {
    serve(&echo::on_probe);
  }

private:
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) { co_return reply_; }
  message<ProbeAnswered> reply_;
};

/// Asks once, to be spawned; `fine` stays true while everybody answers.
template <class Protocol, class Request>
task<void> ask_into(handle<Protocol> asked, message<Request> request, bool* fine) {
  auto answer = co_await asked.ask(std::move(request), within(std::chrono::seconds(10)));
  *fine = *fine && answer.has_value();
}

} // namespace weir::benchmarks
