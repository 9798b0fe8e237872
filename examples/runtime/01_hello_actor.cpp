/// One actor, one question.
///
/// Shows: an actor with a handler, a graph, an ask from `main` with a deadline.
/// Prints: greeter says: hello
#include "actors/graph.hpp"

#include <chrono>
#include <cstdio>

namespace {

// [readme:hello]
class greeter : public weir::actor {
public:
  using protocol = weir::protocol<weir::call<weir::Probe, weir::ProbeAnswered>>;

  explicit greeter(weir::context ctx) : actor(std::move(ctx)) { serve(&greeter::on_probe); }

private:
  weir::task<weir::result<weir::message<weir::ProbeAnswered>>>
  on_probe(weir::message<weir::Probe>) {
    co_await clock().after(std::chrono::milliseconds(1));
    weir::ProbeAnsweredT reply;
    reply.actor = name();
    reply.busy_with = "hello";
    co_return weir::pack(reply);
  }
};
// [end]

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  const auto greeter_handle = system.add<greeter>("greeter");
  if (auto started = system.start(); !started) {
    std::fprintf(stderr, "%s\n", weir::to_string(started.error()).c_str());
    return 1;
  }
  const auto question = weir::pack(weir::ProbeT());
  const auto limit = weir::within(std::chrono::seconds(5));
  const auto answer = system.ask_blocking(greeter_handle, question, limit);
  if (!answer) {
    std::fprintf(stderr, "%s\n", weir::to_string(answer.error()).c_str());
    return 1;
  }
  std::printf("%s says: %s\n", (*answer)->actor()->c_str(), (*answer)->busy_with()->c_str());
  return 0;
}
