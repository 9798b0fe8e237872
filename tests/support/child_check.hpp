/// Checks in a child process, for what a process cannot take back: refused calls and limits.
///
/// Only where no other thread runs. The child reports nothing but the outcome: what is checked in
/// it says so as a bool, not by doctest's assertions.
#pragma once

#include "messages/error.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>

namespace weir::test {

/// What `check` says in a process of its own.
template <class Check>
[[nodiscard]] bool holds_in_child(Check check) {
  const pid_t child = ::fork();
  ensure(child >= 0, "a test has a child process");
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Makes the system call `call` (SYS_...) fail with `number`, in this process from now on.
[[nodiscard]] inline bool refuse_calls(unsigned call, int number) {
  std::array<sock_filter, 4> program = {
      sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0}, // The number of the call stands first.
      sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
      sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<unsigned>(number)},
      sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog filter{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// Makes a write behind so many bytes of a file fail (EFBIG), in this process from now on.
[[nodiscard]] inline bool limit_files_to(std::size_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

} // namespace weir::test
