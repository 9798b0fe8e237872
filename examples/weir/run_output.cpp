#include "examples/weir/run_output.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace weir {

namespace {

std::size_t terminal_columns() {
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// Text inside the quotes of a JSON string.
std::string json_text(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return escaped;
}

bool shown_at(log_level level, logger_level threshold) {
  const auto rank = [](log_level one) {
    switch (one) {
    case log_level::debug:
      return logger_level::debug;
    case log_level::info:
      return logger_level::info;
    case log_level::warning:
      return logger_level::warning;
    case log_level::error:
      return logger_level::error;
    }
    return logger_level::error;
  };
  return rank(level) >= threshold;
}

} // namespace

run_output::run_output(std::uint64_t max_steps, logger_level level)
    : line_(::isatty(STDOUT_FILENO) == 1, terminal_columns()), max_steps_(max_steps),
      level_(level) {}

void run_output::write_metrics_to(dataplane::append_log file) {
  const std::scoped_lock guard(mutex_);
  metrics_.emplace(std::move(file));
}

void run_output::say(const std::string& text) {
  const std::scoped_lock guard(mutex_);
  std::fputs(line_.above(text).c_str(), stdout);
  std::fflush(stdout);
}

void run_output::log(log_level level, std::string_view actor, std::string_view text) {
  if (!shown_at(level, level_)) return;
  const std::string line = fmt::format("{}: {}: {}", to_string(level), actor, text);
  const std::scoped_lock guard(mutex_);
  std::FILE* const stream = level >= log_level::warning ? stderr : stdout;
  std::fputs(line_.above(line).c_str(), stream);
  std::fflush(stream);
}

void run_output::show(progress state) {
  state.max_steps = max_steps_;
  const std::scoped_lock guard(mutex_);
  std::fputs(line_.update(state).c_str(), stdout);
  std::fflush(stdout);
}

void run_output::metric(const std::string& json_line) {
  const std::scoped_lock guard(mutex_);
  if (!metrics_) return;
  // A full disk delays metrics; the next line that is written brings them along.
  std::ignore = metrics_->append(json_line);
  std::ignore = metrics_->write();
}

void run_output::record(const checkpoint_record& record, incarnation life) {
  const CheckpointPublishedT& what = record.published;
  metric(fmt::format("{{\"event\": \"checkpoint\", \"incarnation\": {}, \"bundle\": \"{}\", "
                     "\"hold_ns\": {}, \"drain_ns\": {}, \"capture_ns\": {}, \"write_ns\": {}, "
                     "\"bytes\": {}, \"tokens_while_writing\": {}}}",
                     life.value, what.bundle, what.hold_ns, what.drain_ns, what.capture_ns,
                     what.write_ns, what.bytes, record.tokens_while_writing));
}

void run_output::record_failure(const error& why, incarnation life) {
  metric(fmt::format("{{\"event\": \"checkpoint_failed\", \"incarnation\": {}, \"code\": \"{}\", "
                     "\"reason\": \"{}\"}}",
                     life.value, to_string(why.code), json_text(to_string(why))));
}

void run_output::finish() {
  const std::scoped_lock guard(mutex_);
  std::fputs(line_.finish().c_str(), stdout);
  std::fflush(stdout);
  if (metrics_)
    std::ignore = metrics_->sync(); // Metrics are for people: a run never fails for them.
}

void run_output::set_job_done(const std::string& reason) {
  {
    const std::scoped_lock guard(mutex_);
    done_reason_ = reason;
  }
  job_done_ = true;
}

std::string run_output::done_reason() {
  const std::scoped_lock guard(mutex_);
  return done_reason_;
}

} // namespace weir
