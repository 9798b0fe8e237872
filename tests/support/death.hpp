/// Runs code that must end the process, in a child process, and gives what it said.
///
/// Only where no other thread runs: a graph of the test itself is made inside of the code.
#pragma once

#include "messages/error.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

namespace weir::test {

namespace detail {

template <class Code>
[[noreturn]] void die_of(Code& code, int output) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(output, STDERR_FILENO);
  std::signal(SIGABRT, SIG_DFL); // The test's own handler would report it.
  code();
  ::_exit(0);
}

inline std::string read_all(int from) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 1; (got = ::read(from, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

} // namespace detail

/// What `code()` wrote to the standard error stream before it aborted; "survived" if it did not.
template <class Code>
[[nodiscard]] std::string death_of(Code code) {
  std::array<int, 2> pipe_ends{};
  ensure(::pipe(pipe_ends.data()) == 0, "a test has a pipe");
  const pid_t child = ::fork();
  ensure(child >= 0, "a test has a child process");
  if (child == 0) detail::die_of(code, pipe_ends[1]);
  ::close(pipe_ends[1]);
  std::string said = detail::read_all(pipe_ends[0]);
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  const bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  return aborted ? said : "survived: " + said;
}

} // namespace weir::test
