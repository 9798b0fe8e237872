#include "actors/trainer/supply_watch.hpp"

namespace weir {

result<void> supply_watch::waits(std::uint64_t step, std::uint64_t lacking,
                                 const std::string& shut_gate, std::int64_t now_ns) {
  if (shut_gate.empty() || shut_gate != shut_gate_) since_ns_.reset();
  shut_gate_ = shut_gate;
  if (shut_gate.empty()) return {};
  if (!since_ns_) since_ns_ = now_ns;
  const std::int64_t waited_ns = now_ns - *since_ns_;
  if (waited_ns < options_.stall_timeout.count()) return {};
  since_ns_ = now_ns;
  return failure(errc::exhausted,
                 shut_gate + ", and nothing is in flight: step " + std::to_string(step) +
                     " has lacked " + std::to_string(lacking) +
                     (lacking == 1 ? " group for " : " groups for ") +
                     std::to_string(waited_ns / 1'000'000'000) +
                     " s; its gate must open before, or select must take what is ready");
}

} // namespace weir
