/// The real program in a child process: start it, follow what it prints, signal it, read its end.
///
/// Nothing here waits for time to pass: a test waits for words that the program prints, or for its
/// end. A child that says nothing for a minute is killed, and the test fails on that.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace weir::test {

/// How a run of the program ended.
struct program_end {
  int status = -1; ///< Exit code, or the signal.
  bool by_signal = false;
  bool timed_out = false;
  std::string output; ///< Both streams, in the order of arrival.

  [[nodiscard]] bool exited_with(int code) const {
    return !by_signal && !timed_out && status == code;
  }
  [[nodiscard]] bool says(std::string_view text) const {
    return output.find(text) != std::string::npos;
  }
};

class program {
public:
  /// Runs as this user, without root's rights; -1: as the caller.
  static constexpr uid_t same_user = static_cast<uid_t>(-1);

  explicit program(std::vector<std::string> arguments, uid_t user = same_user);
  ~program();
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Reads until `text` was printed; false if the program ended without it.
  [[nodiscard]] bool prints(std::string_view text);
  void send(int signal);
  /// Waits for the end. Called once.
  [[nodiscard]] program_end wait();

private:
  /// False at the end of the output, or when nothing came for too long.
  bool read_some();

  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
  bool timed_out_ = false;
};

/// Starts the program and waits for its end.
[[nodiscard]] program_end run_program(std::vector<std::string> arguments,
                                      uid_t user = program::same_user);

} // namespace weir::test
