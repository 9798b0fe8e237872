/// The protocol of an environment that is a command of the user's: JSON Lines over its standard
/// input and output, one object a line, answers in any order.
///
///     -> {"id": 7, "prompt": "...", "answer": "...", "completion": "..."}
///     <- {"id": 7, "reward": 0.5, "done": true, "observation": ""}
///
/// This file is the codec alone; starting the command and moving bytes is done elsewhere.
///
/// `id` and `reward` must be there; `done` is true and `observation` empty if they are missing.
/// Further keys are ignored. Bytes of a completion that are not UTF-8 arrive as U+FFFD, since JSON
/// cannot hold them. NaN and Infinity, which JSON does not have and Python writes all the same, are
/// read as no number: the reward of that request is refused, not the program.
#pragma once

#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

/// Longest line that a command may write.
inline constexpr std::size_t command_reply_bytes_max = 16ULL * 1024 * 1024;

struct command_request {
  std::uint64_t id = 0;
  std::string prompt;
  std::string answer;
  std::string completion;
};

struct command_reply {
  std::uint64_t id = 0;
  double reward = 0;
  bool done = true;
  std::string observation = {};
  /// Why this answers its request with an error: what follows `id` is wrong. Empty: it is fine.
  std::string refusal = {};

  friend bool operator==(const command_reply&, const command_reply&) = default;
};

/// One line, with its newline.
[[nodiscard]] std::string encode(const command_request& request);

/// Reads one line, with or without its newline. Errors, where nobody knows whose answer it is:
/// corrupt, with the reason and the begin of the line; exhausted above `command_reply_bytes_max`.
[[nodiscard]] result<command_reply> parse_command_reply(std::string_view line);

/// The begin of a line, printable, as messages show it.
[[nodiscard]] std::string shown_line(std::string_view line);

} // namespace weir
