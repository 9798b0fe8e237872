/// The baselines of runtime_bench: plain CAF actors that send the same frames.
///
/// The only file pair outside of actors/runtime that knows CAF, because it is what we compare with.
#pragma once

#include "messages/frame.hpp"

#include <cstddef>
#include <functional>
#include <memory>

namespace weir::benchmarks {

/// Two CAF actors in a system of their own.
class caf_ping_pong {
public:
  explicit caf_ping_pong(std::size_t workers);
  caf_ping_pong(const caf_ping_pong&) = delete;
  caf_ping_pong& operator=(const caf_ping_pong&) = delete;
  ~caf_ping_pong();

  /// Nanoseconds of one round trip of request().then(), over `rounds` of them.
  [[nodiscard]] double request_ns(const frame& request, const frame& reply, std::size_t rounds);
  /// The same two messages by plain sends: nobody matches an answer with what was asked.
  [[nodiscard]] double send_ns(const frame& request, const frame& reply, std::size_t rounds);

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

/// Actors in a ring; each asks the next one, with many requests under way at once.
class caf_crowd {
public:
  caf_crowd(std::size_t workers, std::size_t actors, std::size_t in_flight, frame request,
            frame reply);
  caf_crowd(const caf_crowd&) = delete;
  caf_crowd& operator=(const caf_crowd&) = delete;
  ~caf_crowd();

  /// Every actor sends all its requests and nobody answers until all have arrived; `pending` is
  /// called then. Returns once all are answered.
  void hold(const std::function<void()>& pending);
  /// Every actor sends all its requests, answered at once. Returns once all are answered.
  void run();

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace weir::benchmarks
