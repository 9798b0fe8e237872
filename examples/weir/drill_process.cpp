#include "examples/weir/drill_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>

namespace weir {

namespace {

/// A child process is outside of `world`: its life is measured by the machine's clock.
double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

tl::unexpected<error> failed(const std::string& what) {
  return failure(errc::io_failed, what + ": " + std::strerror(errno));
}

/// Runs in the child between fork and exec: only system calls.
[[noreturn]] void become(char* const* arguments, int log, pid_t parent) {
  constexpr int exec_failed = 127;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above.
  if (::getppid() != parent) ::_exit(exec_failed);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv("/proc/self/exe", arguments);
  ::_exit(exec_failed);
}

} // namespace

std::string to_string(const process_end& end) {
  return (end.by_signal ? "signal " : "exit code ") + std::to_string(end.status);
}

result<child_process> child_process::start(const std::vector<std::string>& arguments,
                                           const std::string& log_path) {
  std::vector<std::string> words = {"weir"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return failed(log_path);
  const pid_t parent = ::getpid();
  const double started_s = now_s();
  const pid_t pid = ::fork();
  if (pid == 0) become(pointers.data(), log, parent);
  ::close(log);
  if (pid < 0) return failed("a child process cannot be started");
  // glibc 2.36 declares its wrapper without C linkage.
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  child_process child(pid, descriptor, started_s);
  if (descriptor < 0) return failed("a child process cannot be watched");
  return child;
}

child_process::child_process(child_process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), descriptor_(std::exchange(other.descriptor_, -1)),
      started_s_(other.started_s_) {}

child_process::~child_process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

result<process_end> child_process::reap() {
  ensure(pid_ > 0, "a child is reaped once");
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0)
    if (errno != EINTR) return failed("a child process cannot be waited for");
  pid_ = -1;
  process_end end;
  end.by_signal = WIFSIGNALED(status);
  end.status = end.by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
  end.lived_s = lived_s();
  return end;
}

result<process_end> child_process::wait() {
  return reap();
}

result<std::optional<process_end>> child_process::wait_for(double seconds) {
  ensure(pid_ > 0, "a child is waited for while it lives");
  constexpr double milliseconds = 1000;
  const double until_s = now_s() + seconds;
  while (true) {
    const double left_s = std::max(0.0, until_s - now_s());
    pollfd watched{.fd = descriptor_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::ceil(left_s * milliseconds)));
    if (ready > 0) {
      auto end = reap();
      if (!end) return failure(std::move(end.error()));
      return *end;
    }
    if (ready < 0 && errno != EINTR) return failed("a child process cannot be watched");
    if (ready == 0) return std::nullopt;
  }
}

result<process_end> child_process::kill() {
  ensure(pid_ > 0, "a child is killed while it lives");
  ::kill(pid_, SIGKILL);
  return reap();
}

double child_process::lived_s() const {
  return now_s() - started_s_;
}

} // namespace weir
