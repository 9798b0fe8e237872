/// A child process with pipes at its three standard streams: system calls, and who owns what.
#pragma once

#include "messages/error.hpp"

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace weir {

/// Owns a file descriptor; -1 is none.
class descriptor {
public:
  explicit descriptor(int number = -1) noexcept : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() { close(); }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] bool open() const noexcept { return number_ >= 0; }
  void close() noexcept;

private:
  int number_;
};

/// The pipes do not block. Used by one thread, and started by the one that keeps it: the kernel
/// kills the child when that thread goes.
class child {
public:
  /// Errors: not_found and the like, as `exec` says; io_failed where the machine has no more
  /// processes or descriptors.
  [[nodiscard]] static result<child> start(std::vector<std::string> words);
  child(child&&) noexcept;
  child& operator=(child&&) = delete;
  ~child(); ///< Kills it.

  [[nodiscard]] int input() const noexcept { return input_.number(); }
  [[nodiscard]] int output() const noexcept { return output_.number(); }
  [[nodiscard]] int complaints() const noexcept { return complaints_.number(); }
  /// Readable once it has ended.
  [[nodiscard]] int exit() const noexcept { return exit_.number(); }

  /// Not reaped yet.
  [[nodiscard]] bool alive() const noexcept { return pid_ > 0; }
  void close_complaints() noexcept { complaints_.close(); }
  /// Waits at most so long for it to end by itself.
  [[nodiscard]] bool ends_within(int milliseconds) const;
  /// Ends its input, waits so long, kills what is left of its group, and reaps it. The answer says
  /// how it ended: "exited with status 3", "was killed by signal 9". @pre alive()
  std::string end(int patience_ms);

private:
  struct pipes;
  child(pid_t pid, pipes ends);

  pid_t pid_;
  descriptor input_;
  descriptor output_;
  descriptor complaints_;
  descriptor exit_;
};

} // namespace weir
