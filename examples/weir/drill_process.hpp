/// A child process that runs this program again: start, wait with a deadline, kill.
#pragma once

#include "messages/error.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir {

/// How a child ended.
struct process_end {
  /// Exit status, or the signal that killed it.
  int status = 0;
  bool by_signal = false;
  /// From start to end.
  double lived_s = 0;

  [[nodiscard]] bool succeeded() const { return !by_signal && status == 0; }
};

/// "exit code 2", "signal 9".
[[nodiscard]] std::string to_string(const process_end& end);

/// One child. It dies with its parent, and is killed and reaped by the destructor.
class child_process {
public:
  /// Starts this executable with `arguments`; output and errors are appended to `log_path`.
  [[nodiscard]] static result<child_process> start(const std::vector<std::string>& arguments,
                                                   const std::string& log_path);
  ~child_process();
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&&) = delete;

  /// Waits until the child has ended. Errors: io_failed.
  [[nodiscard]] result<process_end> wait();
  /// Waits at most `seconds`; nothing if the child is still alive then. Errors: io_failed.
  [[nodiscard]] result<std::optional<process_end>> wait_for(double seconds);
  /// Kills the child and waits for its end. One that had ended by itself keeps its exit code.
  /// Errors: io_failed.
  [[nodiscard]] result<process_end> kill();
  /// Seconds since the start.
  [[nodiscard]] double lived_s() const;

private:
  child_process(pid_t pid, int descriptor, double started_s)
      : pid_(pid), descriptor_(descriptor), started_s_(started_s) {}
  [[nodiscard]] result<process_end> reap();

  pid_t pid_;
  int descriptor_;
  double started_s_;
};

} // namespace weir
