#include "actors/environment/command_process.hpp"

#include "actors/environment/child.hpp"
#include "actors/environment/command_protocol.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

namespace weir {

namespace {

constexpr std::size_t read_bytes = 64ULL * 1024;
/// Lines that nobody has read yet: above it the program waits for us.
constexpr std::size_t unread_bytes_max = 2 * command_reply_bytes_max;
constexpr std::size_t complaint_bytes_max = 512;
constexpr int patience_ms = 250;

/// Signals are for the threads of the program; a broken pipe is an error of `write`.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

/// Cuts a stream of bytes into lines.
class line_cutter {
public:
  void add(std::string_view bytes) { rest_ += bytes; }
  [[nodiscard]] std::size_t unfinished() const { return rest_.size(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  /// The next whole line without its newline; nothing when none has ended.
  [[nodiscard]] std::optional<std::string> next() {
    const std::size_t end = rest_.find('\n', searched_);
    if (end == std::string::npos) {
      searched_ = rest_.size();
      return std::nullopt;
    }
    std::string line = rest_.substr(0, end);
    rest_.erase(0, end + 1);
    searched_ = 0;
    return line;
  }

private:
  std::string rest_;
  std::size_t searched_ = 0;
};

/// A directory may be executed, too, as far as `access` knows.
bool is_file(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// Appends what a pipe has at this moment; false at its end.
bool drain(int pipe, line_cutter& lines) {
  std::array<char, read_bytes> buffer; // NOLINT(cppcoreguidelines-pro-type-member-init): filled.
  while (lines.unfinished() <= command_reply_bytes_max) {
    const ssize_t got = ::read(pipe, buffer.data(), buffer.size());
    if (got > 0) lines.add({buffer.data(), static_cast<std::size_t>(got)});
    if (got == 0) return false;
    if (got < 0 && errno != EINTR) return errno == EAGAIN;
  }
  return true;
}

} // namespace

/// The thread, and what it shares with the actor.
class command_process::carrier {
public:
  carrier(std::vector<std::string> words, complaint_sink complaints)
      : words_(std::move(words)), complaints_(std::move(complaints)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    ensure(!words_.empty(), "a command names a program");
    ensure(wake_.open(), "a process may have one more descriptor");
    thread_ = std::thread([this] { carry(); });
  }
  carrier(const carrier&) = delete;
  carrier& operator=(const carrier&) = delete;
  ~carrier() {
    {
      const std::lock_guard guard(mutex_);
      closing_ = true;
    }
    wake();
    thread_.join();
  }

  result<void> write(std::string_view bytes) {
    const std::lock_guard guard(mutex_);
    if (ended_) return {}; // Whoever reads is told why.
    const std::size_t waiting = input_.size() - given_;
    if (waiting + bytes.size() > command_input_bytes_max)
      return failure(errc::exhausted, "reads too slowly: " + std::to_string(waiting) +
                                          " bytes wait in front of it already");
    input_ += bytes;
    ++owed_;
    wake();
    return {};
  }

  void read(completion_setter<command_output> reader) {
    const std::lock_guard guard(mutex_);
    reader_.emplace(std::move(reader));
    hand_out();
    wake(); // There is room again.
  }

private:
  void carry();
  [[nodiscard]] std::optional<error> carry_until_end(child& program);
  [[nodiscard]] std::optional<error> take_lines(child& program);
  void take_complaints(child& program);
  [[nodiscard]] bool give_input(const child& program);
  [[nodiscard]] std::uint64_t owed() {
    const std::lock_guard guard(mutex_);
    return owed_;
  }
  void hand_out();
  void end_with(error reason);
  [[nodiscard]] error ended(child& program, const std::string& what);

  void wake() const {
    const std::uint64_t one = 1;
    std::ignore = ::write(wake_.number(), &one, sizeof one); // Full: it is awake already.
  }

  const std::vector<std::string> words_;
  const complaint_sink complaints_;
  const descriptor wake_;

  // Of the thread alone.
  line_cutter lines_;
  line_cutter complaint_lines_;
  std::string last_complaint_;

  std::mutex mutex_; ///< For all below.
  std::string input_;
  std::size_t given_ = 0;  ///< Of the input, by the pipe.
  std::uint64_t owed_ = 0; ///< Lines that went in and have no answer.
  command_output unread_;
  std::size_t unread_bytes_ = 0;
  std::optional<completion_setter<command_output>> reader_;
  bool ended_ = false;
  bool closing_ = false;

  std::thread thread_; ///< Last: it uses all of the above.
};

void command_process::carrier::carry() {
  block_signals();
  auto program = child::start(words_);
  if (!program) return end_with(std::move(program.error()));
  if (auto reason = carry_until_end(*program)) return end_with(std::move(*reason));
  program->end(owed() == 0 ? patience_ms : 0);
}

/// Nothing: the owner wants no more of it.
std::optional<error> command_process::carrier::carry_until_end(child& program) {
  while (true) {
    std::array<pollfd, 5> watched = {{{wake_.number(), POLLIN, 0},
                                      {program.exit(), POLLIN, 0},
                                      {program.output(), POLLIN, 0},
                                      {program.complaints(), POLLIN, 0},
                                      {program.input(), 0, 0}}};
    {
      const std::lock_guard guard(mutex_);
      if (closing_) return std::nullopt;
      if (unread_bytes_ > unread_bytes_max) watched[2].fd = -1;
      if (!input_.empty()) watched[4].events = POLLOUT;
    }
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR)
      return error{errc::io_failed, "cannot be watched: " + std::generic_category().message(errno)};
    std::uint64_t woken = 0;
    std::ignore = ::read(wake_.number(), &woken, sizeof woken);
    if (watched[3].revents != 0) take_complaints(program);
    if (watched[2].revents != 0)
      if (auto reason = take_lines(program)) return reason;
    if (watched[1].revents != 0) return ended(program, "");
    if ((watched[4].revents & POLLERR) != 0) return ended(program, "closed its standard input");
    if ((watched[4].revents & POLLOUT) != 0 && !give_input(program))
      return ended(program, "closed its standard input");
  }
}

/// The reason when these lines are its last.
std::optional<error> command_process::carrier::take_lines(child& program) {
  const bool open = drain(program.output(), lines_);
  {
    const std::lock_guard guard(mutex_);
    while (auto line = lines_.next()) {
      if (owed_ > 0) --owed_;
      unread_bytes_ += line->size();
      unread_.lines.push_back(std::move(*line));
    }
    hand_out();
  }
  if (lines_.unfinished() > command_reply_bytes_max)
    return error{errc::exhausted, "wrote a line of more than " +
                                      std::to_string(command_reply_bytes_max) +
                                      " bytes: " + shown_line(lines_.rest())};
  if (open) return std::nullopt;
  return ended(program, "closed its standard output");
}

void command_process::carrier::take_complaints(child& program) {
  const bool open = drain(program.complaints(), complaint_lines_);
  const auto forward = [this](std::string_view line) {
    line = line.substr(0, complaint_bytes_max);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    last_complaint_ = line;
    complaints_(line);
  };
  while (const auto line = complaint_lines_.next())
    forward(*line);
  const bool too_long = complaint_lines_.unfinished() > complaint_bytes_max;
  if (open && !too_long) return;
  forward(complaint_lines_.rest());
  complaint_lines_ = line_cutter();
  if (!open) program.close_complaints();
}

/// False when nobody will ever read it.
bool command_process::carrier::give_input(const child& program) {
  const std::lock_guard guard(mutex_);
  constexpr std::size_t moved_bytes = 1024ULL * 1024; // What is given goes in large pieces.
  const ssize_t given = ::write(program.input(), input_.data() + given_, input_.size() - given_);
  if (given < 0) return errno == EAGAIN || errno == EINTR;
  given_ += static_cast<std::size_t>(given);
  if (given_ == input_.size() || given_ > moved_bytes) input_.erase(0, std::exchange(given_, 0));
  return true;
}

/// Under the lock.
void command_process::carrier::hand_out() {
  if (!reader_ || (unread_.lines.empty() && !unread_.ended)) return;
  reader_->set(std::exchange(unread_, command_output()));
  reader_.reset();
  unread_bytes_ = 0;
}

void command_process::carrier::end_with(error reason) {
  const std::lock_guard guard(mutex_);
  ended_ = true;
  input_.clear();
  unread_.ended = std::move(reason);
  hand_out();
}

/// How it ended, by what can still be learned of it: its status, and the last that it said.
error command_process::carrier::ended(child& program, const std::string& what) {
  const bool gone = program.ends_within(what.empty() ? 0 : patience_ms);
  if (program.complaints() >= 0) take_complaints(program);
  error reason{errc::unavailable, gone ? program.end(0) : what};
  if (!last_complaint_.empty()) reason.text += "; its last words: " + last_complaint_;
  return reason;
}

command_process::command_process(std::vector<std::string> words, complaint_sink complaints)
    : carrier_(std::make_unique<carrier>(std::move(words), std::move(complaints))) {}

command_process::~command_process() = default;

result<void> command_process::write(std::string_view bytes) {
  return carrier_->write(bytes);
}

void command_process::read(completion_setter<command_output> reader) {
  carrier_->read(std::move(reader));
}

std::string shown_command(const std::vector<std::string>& words) {
  constexpr std::size_t shown_bytes_max = 80;
  std::string shown;
  for (const std::string& word : words)
    shown.append(shown.empty() ? "" : " ").append(word);
  if (shown.size() > shown_bytes_max) shown = shown.substr(0, shown_bytes_max) + "...";
  return shown;
}

result<void> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), F_OK) != 0)
      return failure(errc::not_found, name + ": there is no such program");
    if (!is_file(name))
      return failure(errc::invalid_argument, name + ": is no file; name a program");
    if (::access(name.c_str(), X_OK) != 0)
      return failure(errc::invalid_argument, name + ": may not be executed; chmod +x it");
    return {};
  }
  const char* const path = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe): nobody sets it.
  std::string_view places = path != nullptr ? path : "";
  while (!places.empty()) {
    const std::size_t end = std::min(places.find(':'), places.size());
    const std::string candidate = std::string(places.substr(0, end)) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0 && is_file(candidate)) return {};
    places.remove_prefix(std::min(end + 1, places.size()));
  }
  return failure(errc::not_found,
                 name + ": is no program along PATH; install it, or give its path");
}

} // namespace weir
