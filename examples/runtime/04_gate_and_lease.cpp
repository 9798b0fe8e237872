/// A change of durable state needs a lease, and a gate can hold back whoever wants one.
///
/// A checkpoint closes the gate, waits until every lease is settled, reads the state of all owners
/// at that instant, and opens the gate again.
///
/// Shows: an origin with its mutation gate; an owner whose handler gets a lease_ref; a leased ask,
/// which does not compile without the lease; and a gate that is closed and drained.
/// Prints: teller, transaction 1: the balance is 10
///         closed: nobody gets in
///         held without a break: yes
///         teller, transaction 2: the balance is 20
#include "actors/graph.hpp"
#include "examples/runtime/demo_catalogue.hpp"

#include <chrono>
#include <cstdio>

namespace {

using namespace std::chrono_literals;

class bank : public weir::actor {
public:
  using protocol = weir::protocol<weir::call<demo::Deposit, demo::Deposited>>;
  explicit bank(weir::context ctx) : actor(std::move(ctx)) { serve(&bank::on_deposit); }

private:
  weir::task<weir::result<weir::message<demo::Deposited>>>
  on_deposit(weir::lease_ref lease, weir::message<demo::Deposit> request) {
    balance_ += request->amount(); // Between two suspension points: whole, or not at all.
    std::printf("%s, transaction %llu: the balance is %llu\n", lease.origin().c_str(),
                static_cast<unsigned long long>(lease.transaction()),
                static_cast<unsigned long long>(balance_));
    demo::DepositedT reply;
    reply.balance = balance_;
    co_return weir::pack(reply);
  }

  std::uint64_t balance_ = 0;
};

class teller : public weir::actor {
public:
  using protocol = weir::protocol<>;
  teller(weir::context ctx, weir::handle<bank::protocol> bank)
      : actor(std::move(ctx)), bank_(std::move(bank)) {}

private:
  weir::task<void> run() override {
    constexpr weir::epoch_id epoch{1, 1, 1};
    co_await deposit();
    mutations().close(epoch, 5s); // Opens by itself after that: a dead barrier stops nobody.
    auto settled = co_await mutations().quiesced(epoch);
    if (settled && !mutations().try_enter()) std::printf("closed: nobody gets in\n");
    std::printf("held without a break: %s\n", mutations().open(epoch) ? "yes" : "no");
    co_await deposit();
    finish_run();
  }

  // [readme:lease]
  weir::task<void> deposit() {
    demo::DepositT request;
    request.amount = 10;
    const auto packed = weir::pack(request);
    auto lease = co_await mutations().enter(); // Waits while the gate is closed.
    auto answer = co_await bank_.ask(lease, packed, weir::within(5s));
    if (!answer) fail(answer.error());
  }
  // [end]

  weir::handle<bank::protocol> bank_;
};

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  const auto vault = system.add<bank>("bank");
  system.add<teller>("teller", weir::origin, vault);
  if (auto started = system.start(); !started) return 1;
  return system.wait_blocking(10s) ? 0 : 1;
}
