/// A program outside of the tree: its own messages, one of them mutating, one of them streamed.
///
/// Prints: sold 3 after a request under a lease
///         unavailable: the handle is not wired: nobody to ask (asked of nobody: Buy)
///         on the list: 3
#include "actors/graph.hpp"
#include "actors/runtime/stream.hpp"

#include "shop_catalogue.hpp"

#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using namespace std::chrono_literals;

class till : public weir::actor {
public:
  using protocol = weir::protocol<weir::call<shop::Buy, shop::Bought>,
                                  weir::call<shop::ListSales, shop::SalesListed>>;
  explicit till(weir::context ctx) : actor(std::move(ctx)) {
    serve(&till::on_buy);
    serve(&till::on_list);
  }

private:
  weir::task<weir::result<weir::message<shop::Bought>>> on_buy(weir::lease_ref,
                                                               weir::message<shop::Buy> request) {
    sales_.push_back(request->pieces());
    shop::BoughtT reply;
    reply.sold = request->pieces();
    co_return weir::pack(reply);
  }

  weir::task<weir::result<weir::message<shop::SalesListed>>>
  on_list(weir::message<shop::ListSales> request) {
    children().spawn(&till::list, this, weir::connect<shop::Sale>(*this, request->sales()), sales_);
    shop::SalesListedT reply;
    reply.count = sales_.size();
    co_return weir::pack(reply);
  }

  weir::task<void> list(weir::sink<shop::Sale> to, std::vector<std::uint64_t> sales) {
    for (const std::uint64_t pieces : sales) {
      shop::SaleT item;
      item.pieces = pieces;
      const auto packed = weir::pack(item);
      auto pushed = co_await to.push(packed);
      if (!pushed) co_return;
    }
    to.finish();
  }

  std::vector<std::uint64_t> sales_;
};

class customer : public weir::actor {
public:
  using protocol = weir::protocol<>;
  customer(weir::context ctx, weir::handle<till::protocol> till)
      : actor(std::move(ctx)), till_(std::move(till)) {}

private:
  weir::task<void> run() override {
    shop::BuyT wish;
    wish.pieces = 3;
    const auto buy = weir::pack(wish);
    auto lease = co_await mutations().enter();
    auto bought = co_await till_.ask(lease, buy, weir::within(5s));
    if (!bought) co_return fail(bought.error());
    std::printf("sold %u after a request under a lease\n",
                static_cast<unsigned>((*bought)->sold()));
    const weir::handle<till::protocol> nobody;
    auto refused = co_await nobody.ask(lease, buy, weir::within(5s));
    if (!refused) std::printf("%s\n", weir::to_string(refused.error()).c_str());
    lease.release(); // No lease is held while its holder waits for others.

    auto sales = weir::open_stream<shop::Sale>(*this, 2);
    shop::ListSalesT list;
    list.sales = std::make_unique<weir::StreamRefT>(sales.id());
    const auto request = weir::pack(list);
    auto listed = co_await till_.ask(request, weir::within(5s));
    if (!listed) co_return fail(listed.error());
    auto sale = co_await sales.next(weir::within(5s));
    if (!sale || !*sale) co_return;
    std::printf("on the list: %u\n", static_cast<unsigned>((**sale)->pieces()));
    finish_run();
  }

  weir::handle<till::protocol> till_;
};

} // namespace

int main() {
  weir::world env;
  weir::graph system(env);
  const auto open_till = system.add<till>("till");
  system.add<customer>("customer", weir::origin, open_till);
  if (auto started = system.start(); !started) return 1;
  return system.wait_blocking(10s) ? 0 : 1;
}
