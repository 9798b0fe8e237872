/// `handle<Protocol>`: a typed reference to an actor.
///
/// `ask` compiles for the calls of the protocol only, and for a mutating request only with a lease
/// as first argument. Its answer is a result: the declared reply, or an error that names who was
/// asked for what. Every ask has a deadline.
#pragma once

#include "actors/runtime/detail/ask_table.hpp"
#include "messages/protocol.hpp"

namespace weir {

/// The request changes durable state: pass a lease from `mutations().enter()` as first argument.
template <class Request>
concept needs_a_lease = mutating_message<Request>;

/// The request changes nothing: it is asked without a lease.
template <class Request>
concept needs_no_lease = plain_message<Request>;

namespace detail {

/// Sends a note from the actor whose turn this is, or from nobody.
void send_note(const address& to, payload_ptr content);

template <class Reply>
class [[nodiscard]] ask_awaiter final : public ask_waiter {
public:
  using ask_waiter::ask_waiter;
  /// [[nodiscard]]: an error is not lost by accident.
  [[nodiscard]] result<message<Reply>> await_resume() {
    auto outcome = take_outcome();
    if (!outcome) return failure(std::move(outcome.error()));
    return view_as<Reply>(std::move(*outcome));
  }
};

} // namespace detail

template <class Protocol>
class handle {
public:
  using protocol = Protocol;

  /// Refers to nobody: asking it is answered with errc::unavailable.
  handle() = default;
  explicit handle(detail::address to) noexcept : to_(std::move(to)) {}
  /// An actor that answers more answers this too.
  template <class Wider>
    requires(!std::is_same_v<Wider, Protocol>)
  [[nodiscard]] static handle narrowed(const handle<Wider>& from) noexcept {
    return handle(from.where());
  }

  /// Suspends until the answer, an error, or the deadline. Resumed on the asking actor's turn.
  /// Cancelling forgets the request: its answer is counted and dropped.
  template <class Request>
    requires request_is_in_protocol<Protocol, Request> && needs_no_lease<Request>
  [[nodiscard]] auto ask(message<Request> request, deadline_after limit) const {
    using reply = typename Protocol::template reply<Request>;
    return detail::ask_awaiter<reply>(to_, request.content(), limit, lease_hold());
  }

  /// As above, for a mutating request: it is a step of the lease's transaction, which is not
  /// settled before the answer, whatever becomes of this wait.
  template <class Request>
    requires request_is_in_protocol<Protocol, Request> && needs_a_lease<Request>
  [[nodiscard]] auto ask(lease& under, message<Request> request, deadline_after limit) const {
    using reply = typename Protocol::template reply<Request>;
    return detail::ask_awaiter<reply>(to_, request.content(), limit, lease_hold(under));
  }

  /// One way, in order with everything else this actor sends there. Lost when the receiver ended.
  template <class Note>
    requires note_is_in_protocol<Protocol, Note>
  void tell(message<Note> sent) const {
    if (to_) detail::send_note(to_, sent.content());
  }

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(to_); }
  [[nodiscard]] std::string name() const { return detail::name_of(to_); }
  [[nodiscard]] const detail::address& where() const noexcept { return to_; }
  friend bool operator==(const handle&, const handle&) = default;

private:
  detail::address to_;
};

} // namespace weir
