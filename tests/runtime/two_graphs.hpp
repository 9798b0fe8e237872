/// Two graphs of one process: a keeper is published by the far one and asked by the near one.
#pragma once

#include "tests/runtime/actors_under_test.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <future>
#include <thread>

namespace weir::test {

struct two_graphs {
  explicit two_graphs(incarnation far_life = incarnation(1))
      : env({.log = quiet}), far(env, {.life = far_life}), near(env) {
    keeper_handle = far.add<keeper>("keeper");
    const auto published = far.publish(keeper_handle, "keeper");
    REQUIRE(published);
    port = *published;
    REQUIRE(far.start());
  }
  static void quiet(log_level, std::string_view, std::string_view) {}

  [[nodiscard]] handle<keeper_protocol> connect() {
    auto remote =
        near.connect<keeper_protocol>("127.0.0.1", port, "keeper", within(std::chrono::seconds(5)));
    REQUIRE(remote);
    return *remote;
  }
  /// What has arrived at the keeper, asked in its own graph.
  [[nodiscard]] std::string seen() {
    const auto answer = far.ask_blocking(keeper_handle, probe(), within(std::chrono::seconds(5)));
    REQUIRE(answer);
    return (*answer)->busy_with()->str();
  }
  /// Asks from a thread of its own for what is never answered.
  [[nodiscard]] std::future<result<message<GroupStarted>>>
  ask_later(handle<keeper_protocol> asked) {
    std::packaged_task<result<message<GroupStarted>>()> asking([this, asked] {
      return near.ask_blocking(asked, pack(StartGroupT()), within(std::chrono::seconds(60)));
    });
    auto outcome = asking.get_future();
    threads_.emplace_back(std::move(asking));
    return outcome;
  }
  /// Connects to another port from a thread of its own. Nothing else may be done with `near` then.
  [[nodiscard]] std::future<result<handle<keeper_protocol>>> connect_later(std::uint16_t to) {
    std::packaged_task<result<handle<keeper_protocol>>()> connecting([this, to] {
      return near.connect<keeper_protocol>("127.0.0.1", to, "keeper",
                                           within(std::chrono::seconds(5)));
    });
    auto outcome = connecting.get_future();
    threads_.emplace_back(std::move(connecting));
    return outcome;
  }

  world env;
  graph far;
  graph near;
  handle<keeper_protocol> keeper_handle;
  std::uint16_t port = 0;

private:
  std::vector<std::jthread> threads_; ///< Joined before the graphs go.
};

} // namespace weir::test
