#include "actors/runtime/detail/timer_heap.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

class recorded final : public detail::timer_node {
public:
  recorded(std::vector<int>& fired, int id) : fired_(fired), id_(id) {}

private:
  void expired() noexcept override { fired_.push_back(id_); }
  std::vector<int>& fired_;
  int id_;
};

} // namespace

TEST_SUITE("runtime/timer_heap") {
  TEST_CASE("what is due expires in the order of time, then of arming") {
    detail::timer_heap heap;
    std::vector<int> fired;
    std::vector<std::unique_ptr<recorded>> nodes;
    // 37 is a generator of the integers modulo 101: all times, in a scattered order.
    for (int i = 0; i < 101; ++i) {
      nodes.push_back(std::make_unique<recorded>(fired, i * 37 % 101));
      heap.arm(*nodes.back(), std::chrono::nanoseconds(i * 37 % 101));
    }
    nodes.push_back(std::make_unique<recorded>(fired, 1000));
    heap.arm(*nodes.back(), 0ns);
    CHECK(heap.earliest() == 0ns);
    heap.expire(49ns);
    REQUIRE(fired.size() == 51);
    CHECK(fired[0] == 0);
    CHECK(fired[1] == 1000);
    for (int i = 2; i < 51; ++i)
      CHECK(fired[static_cast<std::size_t>(i)] == i - 1);
    nodes.clear();
    CHECK(heap.empty());
  }

  TEST_CASE("a disarmed or destroyed node does not expire") {
    detail::timer_heap heap;
    std::vector<int> fired;
    recorded kept(fired, 1);
    recorded disarmed(fired, 2);
    {
      recorded destroyed(fired, 3);
      heap.arm(destroyed, 1ns);
      heap.arm(disarmed, 2ns);
      heap.arm(kept, 3ns);
    }
    disarmed.disarm();
    heap.expire(10ns);
    CHECK(fired == std::vector<int>{1});
  }
}

} // namespace weir::test
