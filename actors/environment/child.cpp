#include "actors/environment/child.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <tuple>

namespace weir {

namespace {

std::string words_of(int number) {
  return std::generic_category().message(number);
}

tl::unexpected<error> failed(const std::string& what) {
  return failure(errc::io_failed, what + ": " + words_of(errno));
}

struct pipe_ends {
  descriptor from;
  descriptor to;
};

result<pipe_ends> make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("a pipe cannot be made");
  return pipe_ends{descriptor(ends[0]), descriptor(ends[1])};
}

void never_block(const descriptor& pipe) {
  std::ignore = ::fcntl(pipe.number(), F_SETFL, ::fcntl(pipe.number(), F_GETFL) | O_NONBLOCK);
}

/// What the child needs between fork and exec.
struct birth {
  char* const* words;
  pid_t parent;
  int input;
  int output;
  int complaints;
  int report; ///< Where an exec that failed says so.
};

/// Runs in the child between fork and exec: only system calls.
[[noreturn]] void become(const birth& born) {
  constexpr int exec_failed = 127;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above.
  if (::getppid() != born.parent) ::_exit(exec_failed);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::dup2(born.input, STDIN_FILENO);
  ::dup2(born.output, STDOUT_FILENO);
  ::dup2(born.complaints, STDERR_FILENO);
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execvp(born.words[0], born.words);
  const int number = errno;
  std::ignore = ::write(born.report, &number, sizeof number);
  ::_exit(exec_failed);
}

/// 0 once the child is the program; the number of the error that kept it from it.
int exec_error(const descriptor& report) {
  int number = 0;
  ssize_t got = 0;
  do
    got = ::read(report.number(), &number, sizeof number);
  while (got < 0 && errno == EINTR);
  return got == sizeof number ? number : 0;
}

error not_started(int number) {
  const bool absent = number == ENOENT || number == EACCES || number == ENOEXEC;
  return error{absent ? errc::not_found : errc::io_failed,
               "cannot be started: " + words_of(number)};
}

} // namespace

void descriptor::close() noexcept {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

struct child::pipes {
  descriptor input;
  descriptor output;
  descriptor complaints;
};

child::child(pid_t pid, pipes ends)
    : pid_(pid), input_(std::move(ends.input)), output_(std::move(ends.output)),
      complaints_(std::move(ends.complaints)),
      // glibc 2.36 declares its wrapper without C linkage.
      exit_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
  never_block(input_);
  never_block(output_);
  never_block(complaints_);
}

child::child(child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), input_(std::move(other.input_)),
      output_(std::move(other.output_)), complaints_(std::move(other.complaints_)),
      exit_(std::move(other.exit_)) {}

child::~child() {
  if (alive()) end(0);
}

result<child> child::start(std::vector<std::string> words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  auto input = make_pipe();
  auto output = make_pipe();
  auto complaints = make_pipe();
  auto report = make_pipe();
  for (const auto* made : {&input, &output, &complaints, &report})
    if (!*made) return failure(made->error());
  const birth born{pointers.data(),         ::getpid(),
                   input->from.number(),    output->to.number(),
                   complaints->to.number(), report->to.number()};
  const pid_t pid = ::fork();
  if (pid == 0) become(born);
  if (pid < 0) return failed("a process cannot be started");
  report->to.close();
  child started(pid, {std::move(input->to), std::move(output->from), std::move(complaints->from)});
  if (const int number = exec_error(report->from); number != 0) return failure(not_started(number));
  if (!started.exit_.open()) return failed("a process cannot be watched");
  return started;
}

bool child::ends_within(int milliseconds) const {
  pollfd watched{exit_.number(), POLLIN, 0};
  return ::poll(&watched, 1, milliseconds) > 0;
}

std::string child::end(int patience_ms) {
  ensure(pid_ > 0, "a child is ended once");
  input_.close();
  if (patience_ms > 0) std::ignore = ends_within(patience_ms);
  // Until it is reaped its number, and that of its group, are nobody else's.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? "was killed by signal " + std::to_string(WTERMSIG(status))
                             : "exited with status " + std::to_string(WEXITSTATUS(status));
}

} // namespace weir
