/// Misuse that must not compile. WEIR_CASE picks one wrong use; without it only the right twins are
/// left, and they compile: so a case cannot fail for another reason than its own.
#include "actors/graph.hpp"

#include <utility>
#include <vector>

#ifndef WEIR_CASE
#  define WEIR_CASE 0
#endif

namespace weir {
namespace {

using replay_like = protocol<call<ReserveBatch, BatchReserved>, call<Probe, ProbeAnswered>>;

task<int> number() {
  co_return 1;
}
[[maybe_unused]] int plain_number() {
  return 1;
}
[[maybe_unused]] task<void> takes_number(int) {
  co_return;
}
#if WEIR_CASE == 14
using telling_mutations = protocol<note<ReserveBatch>>;
#endif

class example : public actor {
public:
  using protocol = replay_like;
  explicit example(context ctx, handle<replay_like> peer) : actor(std::move(ctx)), peer_(peer) {
#if WEIR_CASE == 7
    serve(&example::on_reserve_without_lease);
#endif
#if WEIR_CASE == 10
    serve(&example::on_probe_by_reference);
#endif
#if WEIR_CASE == 11
    serve(&example::on_probe_at_once);
#endif
    serve(&example::on_reserve);
  }

private:
  task<result<message<BatchReserved>>> on_reserve(lease_ref, message<ReserveBatch>) {
    co_return pack(BatchReservedT());
  }

  task<void> reserve() {
    auto held = co_await mutations().enter();
    auto request = pack(ReserveBatchT());
#if WEIR_CASE == 1
    auto answer = co_await peer_.ask(request, within(std::chrono::seconds(1)));
#else
    auto answer = co_await peer_.ask(held, request, within(std::chrono::seconds(1)));
#endif
    if (!answer) fail(answer.error());
  }

  task<result<message<ProbeAnswered>>> on_probe_by_reference(const message<Probe>&) {
    co_return pack(ProbeAnsweredT());
  }
  result<message<ProbeAnswered>> on_probe_at_once(message<Probe>) { return pack(ProbeAnsweredT()); }

  task<result<message<BatchReserved>>> on_reserve_without_lease(message<ReserveBatch>) {
    co_return failure(errc::unsupported, "an example");
  }

  task<void> copy_lease() {
    auto held = co_await mutations().enter();
#if WEIR_CASE == 2
    auto second = held;
#else
    auto second = std::move(held);
#endif
    second.release();
  }

  task<int> store_task() {
#if WEIR_CASE == 3
    auto stored = number();
    const int value = co_await std::move(stored);
#elif WEIR_CASE == 12
    auto stored = number();
    const int value = co_await stored;
#elif WEIR_CASE == 4
    std::vector<task<int>> stored;
    stored.push_back(number());
    const int value = 1;
#else
    const int value = co_await number();
#endif
    co_return value;
  }

  task<void> ask_outside() {
#if WEIR_CASE == 5
    auto answer = co_await peer_.ask(pack(ListUnfinishedT()), within(std::chrono::seconds(1)));
#elif WEIR_CASE == 13
    auto answer = co_await peer_.ask(pack(ProbeT()));
#else
    auto answer = co_await peer_.ask(pack(ProbeT()), within(std::chrono::seconds(1)));
#endif
    if (!answer) fail(answer.error());
#if WEIR_CASE == 15
    peer_.tell(pack(ProbeT()));
#endif
  }

  task<void> ignore_task() {
#if WEIR_CASE == 16
    number();
#else
    std::ignore = co_await number();
#endif
    co_return;
  }

  task<void> ignore_result() {
#if WEIR_CASE == 6
    co_await peer_.ask(pack(ProbeT()), within(std::chrono::seconds(1)));
#else
    std::ignore = co_await peer_.ask(pack(ProbeT()), within(std::chrono::seconds(1)));
#endif
  }

  static void ignore_plain_result(payload_ptr content) {
#if WEIR_CASE == 9
    view_as<Probe>(std::move(content));
#else
    std::ignore = view_as<Probe>(std::move(content));
#endif
  }

  void spawn_plain() {
#if WEIR_CASE == 8
    children().spawn(&plain_number);
#elif WEIR_CASE == 17
    children().spawn(&takes_number);
#else
    children().spawn(&example::ignore_result, this);
#endif
  }

  task<void> run() override {
    spawn_plain();
    ignore_plain_result(pack(ProbeT()).content());
    co_await reserve();
    co_await copy_lease();
    co_await ignore_task();
    co_await ask_outside();
    std::ignore = co_await store_task();
  }

  handle<replay_like> peer_;
};

} // namespace

/// Holds no state that outlives it: it may be restarted.
class scorer_like : public actor {
public:
  using protocol = weir::protocol<call<Probe, ProbeAnswered>>;
  explicit scorer_like(context ctx) : actor(std::move(ctx)) {}
};

/// Only actors without durable state are members of a supervised group.
void restart_in_place(graph& system) {
  const auto group = system.supervise("group");
#if WEIR_CASE == 20
  system.add<example>(group, "name", handle<replay_like>());
#elif WEIR_CASE == 21
  system.add<scorer_like>(group, "name", origin);
#else
  system.add<scorer_like>(group, "name");
#endif
}

/// Uses the class, so that nothing of it is left out.
std::unique_ptr<actor> make_example(context ctx, handle<replay_like> peer) {
  return std::make_unique<example>(std::move(ctx), std::move(peer));
}

} // namespace weir
