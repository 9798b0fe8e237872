#include "messages/error.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace weir {

std::string_view to_string(errc code) noexcept {
  switch (code) {
  case errc::invalid_argument:
    return "invalid argument";
  case errc::not_found:
    return "not found";
  case errc::already_exists:
    return "already exists";
  case errc::conflict:
    return "conflict";
  case errc::corrupt:
    return "corrupt";
  case errc::unsupported:
    return "unsupported";
  case errc::io_failed:
    return "I/O failed";
  case errc::no_space:
    return "no space";
  case errc::exhausted:
    return "exhausted";
  case errc::timed_out:
    return "timed out";
  case errc::cancelled:
    return "cancelled";
  case errc::unavailable:
    return "unavailable";
  case errc::internal:
    return "internal error";
  }
  return "unknown error";
}

std::string to_string(const error& failure) {
  std::string text{to_string(failure.code)};
  text += ": " + failure.text;
  if (failure.origin.empty() && failure.subject.empty()) return text;
  text += " (asked";
  if (!failure.origin.empty()) text += " of " + failure.origin;
  if (!failure.subject.empty()) text += ": " + failure.subject;
  return text + ")";
}

namespace {
std::atomic<ensure_observer> installed_observer{nullptr};
} // namespace

void set_ensure_observer(ensure_observer observer) noexcept {
  installed_observer = observer;
}

namespace detail {

void ensure_failed(const char* invariant, std::source_location where) noexcept {
  std::fprintf(stderr, "weir: broken invariant: %s\n  at %s:%u in %s\n", invariant,
               where.file_name(), static_cast<unsigned>(where.line()), where.function_name());
  // Taken once, so that an observer which fails itself does not come back here for ever.
  if (const auto observer = installed_observer.exchange(nullptr)) observer();
  std::abort();
}

} // namespace detail
} // namespace weir
