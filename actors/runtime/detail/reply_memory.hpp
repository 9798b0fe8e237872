/// What an owner remembers of leased requests, so that a repeated one is answered again and never
/// applied again.
///
/// A request is known by (origin, instance, transaction, step). A newer instance of an origin
/// fences the older ones: what they still send is refused. Abort of an epoch raises no fence.
///
/// A stamp says which transactions of its origin are settled: their answers are forgotten, since
/// nobody waits for them. So memory is what is under way, not what has been; an origin that keeps a
/// transaction open for long is bounded by `limits::leased_replies_max`.
#pragma once

#include "actors/runtime/detail/address.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weir::detail {

/// A reply, or the reason why there is none.
struct answer {
  payload_ptr content;
  std::shared_ptr<const error> reason;
};

class reply_memory {
public:
  struct asker {
    address to;
    std::uint64_t request_id;
  };
  enum class verdict : std::uint8_t {
    first,    ///< Apply it.
    pending,  ///< It is being applied: the asker gets the answer with the others.
    answered, ///< The same answer again.
    fenced,   ///< Of an instance that was replaced.
    settled,  ///< Of a settled transaction: applied long ago, and nobody waits.
  };

  /// Classifies a request and remembers its asker. For `answered`, `again` is set.
  [[nodiscard]] verdict admit(const lease_stamp& stamp, asker from, answer& again);
  /// Remembers the answer and returns who waits for it.
  [[nodiscard]] std::vector<asker> settle(const lease_stamp& stamp, answer given);
  /// The handler ended without an answer; nothing was applied as far as it knows.
  [[nodiscard]] std::vector<asker> forget(const lease_stamp& stamp);

private:
  using key = std::pair<std::uint64_t, std::uint32_t>; // transaction, step
  struct entry {
    std::vector<asker> waiting;
    answer given;
    bool done = false;
  };
  struct origin_memory {
    std::uint64_t instance = 0;
    std::uint64_t settled_before = 0;
    std::map<key, entry> entries; ///< Oldest transaction first.
  };

  static void forget_settled(origin_memory& memory, std::uint64_t settled_before);
  static void forget_oldest(origin_memory& memory);

  std::map<std::string, origin_memory> origins_;
};

} // namespace weir::detail
