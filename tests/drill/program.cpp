#include "tests/drill/program.hpp"

#include "messages/error.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace weir::test {

namespace {

/// Between fork and exec: only system calls. The executable is open already, so that another user
/// needs no right to the folders on its way.
[[noreturn]] void become(int executable, char* const* arguments, int output, uid_t user) {
  constexpr int exec_failed = 127;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  const bool changed = user == program::same_user || (::setgid(user) == 0 && ::setuid(user) == 0);
  if (changed) ::fexecve(executable, arguments, environ);
  ::_exit(exec_failed);
}

int open_executable() {
  const char* const path = std::getenv("WEIR_PROGRAM");
  ensure(path != nullptr, "WEIR_PROGRAM names the program under test");
  const int executable = ::open(path, O_RDONLY | O_CLOEXEC);
  ensure(executable >= 0, "the program under test is built");
  return executable;
}

} // namespace

program::program(std::vector<std::string> arguments, uid_t user) {
  arguments.insert(arguments.begin(), "weir");
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (std::string& word : arguments)
    words.push_back(word.data());
  words.push_back(nullptr);
  const int executable = open_executable();
  std::array<int, 2> ends{};
  ensure(::pipe2(ends.data(), O_CLOEXEC) == 0, "a pipe can be made");
  pid_ = ::fork();
  ensure(pid_ >= 0, "a child can be started");
  if (pid_ == 0) become(executable, words.data(), ends[1], user);
  ::close(executable);
  ::close(ends[1]);
  output_ = ends[0];
}

program::~program() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(output_);
}

bool program::read_some() {
  constexpr int patience_ms = 60'000;
  pollfd watched{.fd = output_, .events = POLLIN, .revents = 0};
  int ready = 0;
  do
    ready = ::poll(&watched, 1, patience_ms);
  while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    timed_out_ = true;
    return false;
  }
  std::array<char, 4096> block{};
  const ssize_t count = ::read(output_, block.data(), block.size());
  if (count <= 0) return false;
  text_.append(block.data(), static_cast<std::size_t>(count));
  return true;
}

bool program::prints(std::string_view text) {
  while (text_.find(text) == std::string::npos)
    if (!read_some()) return false;
  return true;
}

void program::send(int signal) {
  ::kill(pid_, signal);
}

program_end program::wait() {
  while (read_some()) {
  }
  if (timed_out_) ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0)
    ensure(errno == EINTR, "a child can be waited for");
  pid_ = -1;
  program_end end;
  end.by_signal = WIFSIGNALED(status);
  end.status = end.by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
  end.timed_out = timed_out_;
  end.output = std::move(text_);
  return end;
}

program_end run_program(std::vector<std::string> arguments, uid_t user) {
  program child(std::move(arguments), user);
  return child.wait();
}

} // namespace weir::test
