/// The baseline of runtime_bench: plain CAF actors that send the same frames.
///
/// The only file pair outside of actors/runtime that knows CAF, because it is what we compare with.
#pragma once

#include "messages/frame.hpp"

#include <cstddef>
#include <memory>

namespace weir::benchmarks {

/// Two CAF actors in a system of their own; one asks the other with request().then().
class caf_ping_pong {
public:
  explicit caf_ping_pong(std::size_t workers);
  caf_ping_pong(const caf_ping_pong&) = delete;
  caf_ping_pong& operator=(const caf_ping_pong&) = delete;
  ~caf_ping_pong();

  /// Nanoseconds of one round trip, over `rounds` of them.
  [[nodiscard]] double round_trip_ns(const frame& request, const frame& reply, std::size_t rounds);

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace weir::benchmarks
