/// Errors are values: every layer speaks `result<T>`, and a broken invariant ends the process.
///
/// Three classes of failure, three mechanisms (style 5.5): what the environment or a peer did wrong
/// is an `error` in a `result<T>`; a bug in this code base is `ensure`, always on; exceptions are
/// never ours. A crash is a legal, tested event: it loses nothing that a bundle holds.
#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

namespace weir {

/// What went wrong, by what the caller should do about it. Closed: a new value breaks every switch.
enum class errc : std::uint8_t {
  invalid_argument, ///< The request cannot be right: refuse it, tell the user what to change.
  not_found,        ///< The named object does not exist: refuse, or use the default.
  already_exists,   ///< The name is taken: choose another, never overwrite.
  conflict,         ///< State moved on (stale epoch, fenced instance): drop, never retry as is.
  corrupt,          ///< Bytes fail verification: use another copy, report file and reason.
  unsupported,      ///< A newer format or a missing feature: refuse and name the version.
  io_failed,        ///< The operating system failed a read, a write or a sync: give the file up.
  no_space,         ///< ENOSPC or EDQUOT: keep what is published, retry at the next period.
  exhausted,        ///< A bound of ours is reached (capacity, budget): back off or shed.
  timed_out,        ///< A deadline passed: attribute it, retry or escalate.
  cancelled,        ///< The one who waited went away: unwind, log nothing.
  unavailable,      ///< The peer is dead or stopped: another one, or the end of the incarnation.
  internal,         ///< A library failed in a way that it does not document: stop with its text.
};

/// Name of an error class as it is printed, for example "corrupt".
[[nodiscard]] std::string_view to_string(errc code) noexcept;

/// One failure. `text` names the object and the numbers and says what to do; it never names a
/// function. `origin` is the actor that failed (empty outside actors), `subject` what was asked.
struct error {
  errc code = errc::internal;
  std::string text;
  std::string origin = {};
  std::string subject = {};

  friend bool operator==(const error&, const error&) = default;
};

/// "corrupt: step_12/MANIFEST: checksum differs (asked of replay: CommitGroup)".
[[nodiscard]] std::string to_string(const error& failure);

/// A value, or the error that says why there is none.
template <class T>
using result = tl::expected<T, error>;

/// Makes the failing side of a result: `return failure(errc::corrupt, "segment 4: ...");`.
[[nodiscard]] inline tl::unexpected<error> failure(errc code, std::string text) {
  return tl::unexpected<error>(error{code, std::move(text)});
}
[[nodiscard]] inline tl::unexpected<error> failure(error value) {
  return tl::unexpected<error>(std::move(value));
}

/// Called with the report of a failed `ensure` before the process aborts, for example to print the
/// coroutines that were suspended. Installed once, by the runtime.
using ensure_observer = void (*)() noexcept;
void set_ensure_observer(ensure_observer observer) noexcept;

namespace detail {
[[noreturn]] void ensure_failed(const char* invariant, std::source_location where) noexcept;
} // namespace detail

/// Aborts with the invariant, in words, when it does not hold. There is no build without it.
inline void ensure(bool holds, const char* invariant,
                   std::source_location where = std::source_location::current()) noexcept {
  if (!holds) [[unlikely]]
    detail::ensure_failed(invariant, where);
}

} // namespace weir
