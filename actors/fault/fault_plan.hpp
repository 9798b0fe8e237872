/// A plan of faults: a list of rules, each of which says what happens to which messages, and when.
///
///   weir::fault_plan plan{
///       weir::on<CommitGroup>().duplicate(),                       // every one of them
///       weir::on<Probe>(is_early).delay(5ms).chance(0.1),          // some that a predicate picks
///       weir::any_reply().drop().nth(3),                           // the third answer of any kind
///   };
///
/// Which: `on<T>()` looks at messages of type T, requests, notes and replies alike (a type is only
/// one of them), with a predicate at those that it likes; `any_request()` at every request and
/// note; `any_reply()` at every answer, errors too. When: each time, unless `chance`, `from`,
/// `times` or `nth` says less. The first rule of the plan that strikes decides.
#pragma once

#include "messages/message.hpp"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir {

enum class fault_kind : std::uint8_t {
  pass,         ///< No fault.
  drop,         ///< Nobody gets it.
  delay,        ///< Later.
  duplicate,    ///< More than once.
  reorder,      ///< After some that came later.
  corrupt,      ///< Bits of a copy are flipped; the border refuses it.
  refuse,       ///< An error instead.
  kill_actor,   ///< The actor behind fails.
  kill_process, ///< SIGKILL.
};
[[nodiscard]] std::string_view to_string(fault_kind kind) noexcept;

enum class fault_side : std::uint8_t { request, reply };

/// What happens to a message; `pass` by default.
struct fault_effect {
  fault_kind kind = fault_kind::pass;
  std::chrono::nanoseconds shortest{0}; ///< Of a delay.
  std::chrono::nanoseconds longest{0};  ///< Of a delay, or of the wait to be overtaken.
  std::uint32_t count = 0;              ///< Copies, or how many overtake at most.
  errc code = errc::unavailable;        ///< Of a refusal.
  std::string text = {};
};

/// One rule, complete; made by the functions of `fault_trigger`.
class fault_rule {
public:
  /// Strikes with this probability. @pre 0 <= probability <= 1
  fault_rule& chance(double probability);
  /// Only from the n-th matching message on, counted from 1. @pre n > 0
  fault_rule& from(std::uint64_t n);
  /// At most so often. @pre count > 0
  fault_rule& times(std::uint64_t count);
  /// At the n-th matching message alone. @pre n > 0
  fault_rule& nth(std::uint64_t n) { return from(n).times(1); }

private:
  friend class fault_trigger;
  friend class fault_state;

  std::optional<message_type> type_;                   ///< Any, when empty.
  std::optional<fault_side> side_;                     ///< Both, when empty.
  std::function<bool(const payload_ptr&)> likes_ = {}; ///< All, when empty.
  fault_effect effect_ = {};
  double probability_ = 1;
  std::uint64_t from_ = 1;
  std::uint64_t times_ = std::numeric_limits<std::uint64_t>::max();
};

/// Which messages; its functions say what happens to them.
class [[nodiscard]] fault_trigger {
public:
  fault_trigger(std::optional<message_type> type, std::optional<fault_side> side,
                std::function<bool(const payload_ptr&)> likes);

  /// Nobody gets it: the asker waits until its deadline. Under a lease, the transaction stays
  /// unsettled until the fault actor ends.
  fault_rule drop() const;
  /// Arrives later, by a time drawn evenly from the two. Others overtake it meanwhile.
  fault_rule delay(std::chrono::nanoseconds duration) const { return delay(duration, duration); }
  fault_rule delay(std::chrono::nanoseconds shortest, std::chrono::nanoseconds longest) const;
  /// Arrives once and `copies` times more, in a row.
  fault_rule duplicate(std::uint32_t copies = 1) const;
  /// Held until 1 to `span` (drawn) later messages of its direction went past, at most for `hold`.
  fault_rule reorder(std::uint32_t span,
                     std::chrono::nanoseconds hold = std::chrono::milliseconds(100)) const;
  /// Bits of a copy of its bytes are flipped until verification refuses them: the asker gets
  /// errc::corrupt, the receiver sees nothing. An answer that is an error passes.
  fault_rule corrupt() const;
  /// Answered with an error that names the fault actor, instead of the receiver or of its answer.
  fault_rule refuse(errc code, std::string text) const;
  /// The actor behind fails first: a request is refused, an answer is lost with it.
  fault_rule kill() const;
  /// The process ends at once, as in a crash.
  fault_rule kill_process() const;

private:
  [[nodiscard]] fault_rule rule(fault_effect effect) const;

  std::optional<message_type> type_;
  std::optional<fault_side> side_;
  std::function<bool(const payload_ptr&)> likes_;
};

/// Messages of a type.
template <declared_message T>
[[nodiscard]] fault_trigger on() {
  return fault_trigger(message_traits<T>::type, std::nullopt, {});
}
/// Messages of a type for which `predicate(const T&)` is true. It is called on the fault actor's
/// turn, once for each message of the type until an earlier rule strikes.
template <declared_message T, std::predicate<const T&> Predicate>
[[nodiscard]] fault_trigger on(Predicate predicate) {
  const auto likes = [predicate = std::move(predicate)](const payload_ptr& content) {
    const message<T> viewed(content);
    return predicate(*viewed);
  };
  return fault_trigger(message_traits<T>::type, std::nullopt, likes);
}
[[nodiscard]] inline fault_trigger any_request() {
  return fault_trigger(std::nullopt, fault_side::request, {});
}
[[nodiscard]] inline fault_trigger any_reply() {
  return fault_trigger(std::nullopt, fault_side::reply, {});
}

/// Rules in the order in which they are asked. Empty: everything passes.
struct fault_plan {
  fault_plan() = default;
  fault_plan(std::initializer_list<fault_rule> listed) : rules(listed) {}

  std::vector<fault_rule> rules;
};

} // namespace weir
