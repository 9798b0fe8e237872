/// A mutation needs a lease, and a barrier can hold the gate that gives leases out.
///
/// Shows: an origin with a mutation gate, an owner whose handler gets a lease_ref, a leased ask
/// (without the lease it does not compile), and a closed gate that drains and holds.
/// Prints: transaction 1 of writer, step 0
///         closed: nobody gets in
///         held without a break: yes
///         transaction 2 of writer, step 0
#include "actors/graph.hpp"

#include <chrono>
#include <cstdio>

namespace {

using namespace std::chrono_literals;
using store_protocol = weir::protocol<weir::call<weir::ReserveBatch, weir::BatchReserved>>;

class store : public weir::actor {
public:
  using protocol = store_protocol;
  explicit store(weir::context ctx) : actor(std::move(ctx)) { serve(&store::on_reserve); }

private:
  weir::task<weir::result<weir::message<weir::BatchReserved>>>
  on_reserve(weir::lease_ref lease, weir::message<weir::ReserveBatch>) {
    std::printf("transaction %llu of %s, step %u\n",
                static_cast<unsigned long long>(lease.transaction()), lease.origin().c_str(),
                lease.step());
    co_return weir::pack(weir::BatchReservedT());
  }
};

class writer : public weir::actor {
public:
  using protocol = weir::protocol<>;
  writer(weir::context ctx, weir::handle<store_protocol> store)
      : actor(std::move(ctx)), store_(std::move(store)) {}

private:
  weir::task<void> run() override {
    constexpr weir::epoch_id epoch{1, 1, 1};
    co_await write();
    mutations().close(epoch, 5s);
    auto settled = co_await mutations().quiesced(epoch);
    if (settled && !mutations().try_enter()) std::printf("closed: nobody gets in\n");
    std::printf("held without a break: %s\n", mutations().open(epoch) ? "yes" : "no");
    co_await write();
    finish_run();
  }

  weir::task<void> write() {
    auto lease = co_await mutations().enter();
    const auto request = weir::pack(weir::ReserveBatchT());
    auto reserved = co_await store_.ask(lease, request, weir::within(5s));
    if (!reserved) fail(reserved.error());
  }

  weir::handle<store_protocol> store_;
};

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  const auto store_handle = system.add<store>("store");
  std::ignore = system.add<writer>("writer", weir::origin, store_handle);
  const auto started = system.start();
  if (!started) return 1;
  const auto ended = system.wait_blocking(10s);
  return ended ? 0 : 1;
}
