#include "kernels/device_stream.hpp"

#include <doctest/doctest.h>

#include <future>
#include <latch>
#include <vector>

namespace {

using namespace weir;
using namespace weir::kernels;

std::unique_ptr<device_stream> cpu_stream(const device_stream_options& options = {}) {
  return device_stream::create(device{}, options).value();
}

TEST_SUITE("kernels/device_stream") {
  TEST_CASE("pieces run in order, each followed by its completion") {
    std::vector<int> order;
    {
      const auto stream = cpu_stream({.queue_limit = 200});
      for (int index = 0; index < 100; ++index)
        REQUIRE(stream
                    ->submit([&order, index] { order.push_back(2 * index); },
                             [&order, index] { order.push_back(2 * index + 1); })
                    .has_value());
    }
    // The destructor let everything run that was accepted.
    REQUIRE(order.size() == 200);
    for (int index = 0; index < 200; ++index)
      CHECK(order[static_cast<std::size_t>(index)] == index);
  }

  TEST_CASE("a full stream refuses, and takes work again when a piece has ended") {
    std::latch gate(1);
    std::promise<void> ended;
    const auto stream = cpu_stream({.queue_limit = 2});
    REQUIRE(stream->submit([&] { gate.wait(); }, {}).has_value());
    REQUIRE(stream->submit([] {}, [&] { ended.set_value(); }).has_value());
    bool ran = false;
    const auto refused = stream->submit([&] { ran = true; }, [&] { ran = true; });
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::exhausted);
    CHECK(refused.error().text ==
          "the stream of cpu holds 2 pieces of work, its limit: wait for one to end");
    CHECK(stream->pending() == 2);
    gate.count_down();
    ended.get_future().wait();
    CHECK(stream->pending() == 0);
    CHECK_FALSE(ran);
    CHECK(stream->submit([] {}, {}).has_value());
  }

  TEST_CASE("a place is free before the completion is told") {
    const auto stream = cpu_stream({.queue_limit = 1});
    std::promise<std::size_t> pending;
    REQUIRE(stream->submit([] {}, [&] { pending.set_value(stream->pending()); }).has_value());
    CHECK(pending.get_future().get() == 0);
  }

  TEST_CASE("work and completion run on one thread that is not the caller's") {
    const auto stream = cpu_stream({.queue_limit = 4, .niceness = 10});
    std::promise<int> told;
    // Only the stream's thread touches it: a race would be seen by a sanitizer.
    auto counter = std::make_shared<int>(0);
    int* value = counter.get();
    REQUIRE(stream->submit([value] { ++*value; }, [value] { ++*value; }).has_value());
    REQUIRE(stream->submit([value] { ++*value; }, [&told, value] { told.set_value(*value); })
                .has_value());
    CHECK(told.get_future().get() == 3);
    CHECK(stream->where() == device{});
    CHECK(stream->native() == nullptr);
  }

  TEST_CASE("options out of range and absent devices are refused") {
    CHECK(device_stream::create(device{}, {.queue_limit = 0}).error().code ==
          errc::invalid_argument);
    CHECK(device_stream::create(device{}, {.niceness = -1}).error().code == errc::invalid_argument);
    CHECK(device_stream::create(device{}, {.niceness = 20}).error().code == errc::invalid_argument);
    if (find_cuda_devices().devices.empty())
      CHECK(device_stream::create({device_kind::cuda, 0}, {}).error().code == errc::unavailable);
  }

  TEST_CASE("a CUDA stream runs work and completions in order") {
    const cuda_search found = find_cuda_devices();
    if (found.devices.empty()) {
      MESSAGE("skipped: " << found.explanation);
      return;
    }
    std::vector<int> order;
    {
      const device where{device_kind::cuda, found.devices.front().ordinal};
      const auto stream = device_stream::create(where, {}).value();
      CHECK(stream->native() != nullptr);
      REQUIRE(stream->submit([&] { order.push_back(1); }, [&] { order.push_back(2); }).has_value());
      REQUIRE(stream->submit([&] { order.push_back(3); }, [&] { order.push_back(4); }).has_value());
    }
    CHECK(order == std::vector<int>{1, 2, 3, 4});
  }
}

} // namespace
