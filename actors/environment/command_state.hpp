/// Which requests a program was given and has not answered, and how long it has been silent. No
/// actor, no process, no clock: times are nanoseconds of the world's clock.
///
/// A program may answer in any order and take as long as it likes for each request, as long as it
/// answers *something* now and then: a queue in front of a slow judge is no hang. Silence while
/// requests wait is.
#pragma once

#include "actors/environment/command_protocol.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace weir {

class command_state {
public:
  explicit command_state(std::int64_t silence_max_ns) : silence_max_ns_(silence_max_ns) {}

  /// The number of a new request.
  [[nodiscard]] std::uint64_t ask(std::int64_t now_ns);
  /// The request was not given to the program after all.
  void forget(std::uint64_t id) { waiting_.erase(id); }
  /// The program wrote a line. Errors, after which nothing that it says can be trusted: those of
  /// `parse_command_reply`; corrupt for an id that waits for no answer.
  [[nodiscard]] result<command_reply> heard(std::string_view line, std::int64_t now_ns);

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// When the program counts as hung, unless it says something before; nothing while no request
  /// waits.
  [[nodiscard]] std::optional<std::int64_t> hung_at_ns() const;

private:
  std::int64_t silence_max_ns_;
  std::uint64_t next_ = 0;
  std::set<std::uint64_t> waiting_;
  std::int64_t silent_since_ns_ = 0;
};

} // namespace weir
