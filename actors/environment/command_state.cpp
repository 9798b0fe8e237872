#include "actors/environment/command_state.hpp"

namespace weir {

std::uint64_t command_state::ask(std::int64_t now_ns) {
  if (waiting_.empty()) silent_since_ns_ = now_ns;
  waiting_.insert(next_);
  return next_++;
}

result<command_reply> command_state::heard(std::string_view line, std::int64_t now_ns) {
  auto reply = parse_command_reply(line);
  if (!reply) return reply;
  if (waiting_.erase(reply->id) == 0)
    return failure(errc::corrupt,
                   "answered request " + std::to_string(reply->id) + ", which " +
                       (reply->id < next_ ? "it had answered before" : "nobody has made") +
                       ", with: " + shown_line(line));
  silent_since_ns_ = now_ns;
  return reply;
}

std::optional<std::int64_t> command_state::hung_at_ns() const {
  if (waiting_.empty()) return std::nullopt;
  return silent_since_ns_ + silence_max_ns_;
}

} // namespace weir
