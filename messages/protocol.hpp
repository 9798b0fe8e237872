/// A protocol: the conversations that an actor takes part in, as a type.
#pragma once

#include "messages/message.hpp"

#include <type_traits>

namespace weir {

/// A request and the reply it is answered with.
template <declared_message Request, declared_message Reply>
struct call {
  using request_type = Request;
  using reply_type = Reply;
};

/// A one-way message. Never mutating: nobody would know that it was applied.
template <plain_message Note>
struct note {
  using request_type = Note;
  using reply_type = void;
};

namespace detail {

struct no_conversation {
  using request_type = void;
  using reply_type = void;
};

template <class Request, class... Conversations>
struct find_conversation {
  using type = no_conversation;
};

template <class Request, class First, class... Rest>
struct find_conversation<Request, First, Rest...> {
  using type = std::conditional_t<std::is_same_v<Request, typename First::request_type>, First,
                                  typename find_conversation<Request, Rest...>::type>;
};

} // namespace detail

/// The conversations of one actor. Handles are typed by it, so that asking for anything else does
/// not compile.
template <class... Conversations>
struct protocol {
  /// The conversation that a request starts, or `detail::no_conversation`.
  template <class Request>
  using conversation = typename detail::find_conversation<Request, Conversations...>::type;

  template <class Request>
  static constexpr bool has = !std::is_void_v<typename conversation<Request>::request_type>;

  /// Whoever answers all of it changes durable state.
  static constexpr bool has_mutating_request =
      (mutating_message<typename Conversations::request_type> || ...);

  template <class Request>
  using reply = typename conversation<Request>::reply_type;
};

/// The protocol has a call with this request: it can be asked.
template <class Protocol, class Request>
concept request_is_in_protocol =
    Protocol::template has<Request> && !std::is_void_v<typename Protocol::template reply<Request>>;

/// The protocol has this note: it can be told.
template <class Protocol, class Note>
concept note_is_in_protocol =
    Protocol::template has<Note> && std::is_void_v<typename Protocol::template reply<Note>>;

/// Conversations of several protocols together: what a role answers and what the barrier asks.
template <class... Protocols>
struct join_protocols;

template <class... First>
struct join_protocols<protocol<First...>> {
  using type = protocol<First...>;
};

template <class... First, class... Second, class... Rest>
struct join_protocols<protocol<First...>, protocol<Second...>, Rest...> {
  using type = typename join_protocols<protocol<First..., Second...>, Rest...>::type;
};

template <class... Protocols>
using joined = typename join_protocols<Protocols...>::type;

/// What every origin answers.
using origin_protocol = protocol<call<Announce, Announced>, call<Quiesce, Quiesced>,
                                 call<Resume, Resumed>, note<AbortEpoch>>;

/// What every owner answers. What an owner that is an origin too would have twice, it has once: the
/// first one wins.
using owner_protocol =
    protocol<call<Announce, Announced>, call<Cut, Captured>, call<WriteSection, SectionWritten>,
             note<ReleaseCapture>, note<AbortEpoch>>;

} // namespace weir
