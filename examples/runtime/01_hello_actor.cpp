/// One actor, one question.
///
/// Shows: an actor whose handler is a coroutine, a graph, and an ask with a deadline. The messages
/// are those of demo.fbs.
/// Prints: hello, reader
#include "actors/graph.hpp"
#include "examples/runtime/demo_catalogue.hpp"

#include <chrono>
#include <cstdio>

namespace {

using namespace std::chrono_literals;

// [readme:hello]
class greeter : public weir::actor {
public:
  using protocol = weir::protocol<weir::call<demo::Greet, demo::Greeted>>;
  explicit greeter(weir::context ctx) : actor(std::move(ctx)) { serve(&greeter::on_greet); }

private:
  weir::task<weir::result<weir::message<demo::Greeted>>>
  on_greet(weir::message<demo::Greet> request) {
    co_await clock().after(1ms); // Meanwhile the actor takes other messages, the thread other work.
    demo::GreetedT reply;
    reply.text = "hello, " + weir::text_of(request->name());
    co_return weir::pack(reply);
  }
};
// [end]

int complain(const weir::error& reason) {
  std::fprintf(stderr, "%s\n", weir::to_string(reason).c_str());
  return 1;
}

} // namespace

int main() {
  // [readme:hello_main]
  weir::world env;         // Time, randomness, storage and blocking threads: here the real ones.
  weir::graph system(env); // The actors, and who knows whom.
  const auto greeting = system.add<greeter>("greeter");
  if (auto started = system.start(); !started) return complain(started.error());

  demo::GreetT question;
  question.name = "reader";
  auto answer = system.ask_blocking(greeting, weir::pack(question), weir::within(5s));
  if (!answer) return complain(answer.error()); // Who was asked for what, and what went wrong.
  std::printf("%s\n", weir::text_of((*answer)->text()).c_str());
  // [end]
  return 0;
}
