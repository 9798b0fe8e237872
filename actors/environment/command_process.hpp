/// A program of the user's as a child process: lines in, lines out, and an end that nobody misses.
///
/// A thread of its own moves the bytes between three pipes and the actor: it sleeps in `poll` on
/// the pipes, on the child (a pidfd) and on a wake-up of ours, so that no thread of the scheduler
/// or of the blocking pool ever waits for a program. It decides nothing about what lines mean.
///
/// The child is started without a shell, in a process group of its own (a Ctrl-C of the terminal is
/// not for it), with no descriptor of ours but its three pipes, and dies with this process however
/// that ends: the kernel kills it when the thread goes. Whoever it started goes with its group.
/// It is always reaped.
#pragma once

#include "actors/runtime/completion.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// Bytes that may wait for a program that does not read its input.
inline constexpr std::size_t command_input_bytes_max = 64ULL * 1024 * 1024;

/// What a program wrote since the last read, and how it ended, if it did.
struct command_output {
  /// Whole lines of its standard output, without their newlines.
  std::vector<std::string> lines = {};
  /// Nothing comes after this: it could not be started, exited, was killed, closed a pipe, or wrote
  /// a line above `command_reply_bytes_max`.
  std::optional<error> ended = {};
};

class command_process {
public:
  /// Called on the process's thread with each line of the standard error stream.
  using complaint_sink = std::function<void(std::string_view line)>;

  /// Starts `words[0]`, found along PATH, with the rest as its arguments. That it cannot be started
  /// is the first thing that `read` tells. @pre !words.empty()
  command_process(std::vector<std::string> words, complaint_sink complaints);
  command_process(const command_process&) = delete;
  command_process& operator=(const command_process&) = delete;
  /// A program that owes no answer sees the end of its input and gets a quarter of a second to go;
  /// any other one is killed at once.
  ~command_process();

  /// Queues bytes for its standard input; never blocks. Errors: exhausted above
  /// `command_input_bytes_max`. What comes after its end is forgotten.
  [[nodiscard]] result<void> write(std::string_view bytes);
  /// Sets `reader` once there is anything to read: at once, or from the process's thread. One
  /// reader at a time.
  void read(completion_setter<command_output> reader);

private:
  class carrier;
  std::unique_ptr<carrier> carrier_;
};

/// The words of a command as messages show them: joined, cut at 80 bytes.
[[nodiscard]] std::string shown_command(const std::vector<std::string>& words);

/// Whether a program of this name could be started: a path, or a name along PATH. Errors: not_found
/// or invalid_argument, with what to do.
[[nodiscard]] result<void> find_program(const std::string& name);

} // namespace weir
