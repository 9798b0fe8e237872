/// What a crowd counts while its members ask each other: the same for ours and for plain CAF.
#pragma once

#include <atomic>
#include <cstddef>
#include <future>

namespace weir::benchmarks {

struct crowd_run {
  std::size_t in_flight = 0; ///< Requests of each member.
  std::size_t expected = 0;  ///< Requests of all members together.
  bool holding = false;
  std::atomic<std::size_t> arrived = 0;
  std::atomic<std::size_t> answered = 0;
  std::promise<void> all_arrived;
  std::promise<void> all_answered;

  /// Before anybody asks; with `hold`, answers wait until all requests have arrived.
  void begin(bool hold) {
    holding = hold;
    arrived = 0;
    answered = 0;
    all_arrived = {};
    all_answered = {};
  }
};

} // namespace weir::benchmarks
