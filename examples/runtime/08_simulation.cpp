/// The same actors under a seed: one thread, virtual time, a schedule that can be repeated.
///
/// Two depositors read a balance and write it back 10 higher. Under most interleavings that is
/// right; under some, one overwrites the other. A test that runs on threads meets such a schedule
/// once in a while; a simulation meets it in one of its seeds, and meets it again.
///
/// Shows: simulate, a sweep over seeds, a failing seed that fails again in the same way, and
/// clocks that cost no time.
/// Prints: of 100 seeds, some lose a deposit: yes
///         that seed again: balance 10, the same trace: yes
///         a day went by each time: yes
#include "actors/runtime/simulation.hpp"
#include "examples/runtime/demo_catalogue.hpp"

#include <chrono>
#include <cstdio>

namespace {

using namespace std::chrono_literals;

class account : public weir::actor {
public:
  using protocol = weir::protocol<weir::call<demo::ReadBalance, demo::BalanceRead>,
                                  weir::call<demo::WriteBalance, demo::BalanceWritten>>;
  account(weir::context ctx, std::uint64_t* balance) : actor(std::move(ctx)), balance_(balance) {
    serve(&account::on_read);
    serve(&account::on_write);
  }

private:
  weir::task<weir::result<weir::message<demo::BalanceRead>>>
  on_read(weir::message<demo::ReadBalance>) {
    demo::BalanceReadT reply;
    reply.balance = *balance_;
    co_return weir::pack(reply);
  }
  weir::task<weir::result<weir::message<demo::BalanceWritten>>>
  on_write(weir::message<demo::WriteBalance> request) {
    *balance_ = request->balance();
    if (++writes_ == 2) finish_run();
    co_return weir::pack(demo::BalanceWrittenT());
  }

  std::uint64_t* balance_; ///< The test looks at it after the run.
  int writes_ = 0;
};

class depositor : public weir::actor {
public:
  using protocol = weir::protocol<>;
  depositor(weir::context ctx, weir::handle<account::protocol> account)
      : actor(std::move(ctx)), account_(std::move(account)) {}

private:
  weir::task<void> run() override {
    co_await clock().after(24h); // In virtual time: one step.
    const auto question = weir::pack(demo::ReadBalanceT());
    auto read = co_await account_.ask(question, weir::within(5s));
    if (!read) co_return fail(read.error());
    demo::WriteBalanceT change;
    change.balance = (*read)->balance() + 10; // The mistake: it may be an old one by now.
    const auto request = weir::pack(change);
    auto written = co_await account_.ask(request, weir::within(5s));
    if (!written) fail(written.error());
  }

  weir::handle<account::protocol> account_;
};

// [readme:simulation]
weir::simulated_run two_deposits(std::uint64_t seed, std::uint64_t& balance) {
  balance = 0;
  return weir::simulate(seed, [&balance](weir::graph& system) {
    const auto shared = system.add<account>("account", &balance);
    system.add<depositor>("first", shared);
    system.add<depositor>("second", shared);
  });
}
// [end]

} // namespace

int main() {
  std::uint64_t balance = 0;
  std::uint64_t failing = 0;
  bool a_day_each = true;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto ran = two_deposits(seed, balance);
    if (!ran.outcome) return 1;
    if (balance != 20) failing = seed;
    a_day_each = a_day_each && ran.elapsed >= 24h;
  }
  std::printf("of 100 seeds, some lose a deposit: %s\n", failing != 0 ? "yes" : "no");

  const auto once = two_deposits(failing, balance);
  const auto again = two_deposits(failing, balance);
  std::printf("that seed again: balance %u, the same trace: %s\n", static_cast<unsigned>(balance),
              once.trace_hash == again.trace_hash ? "yes" : "no");
  std::printf("a day went by each time: %s\n", a_day_each ? "yes" : "no");
  return 0;
}
