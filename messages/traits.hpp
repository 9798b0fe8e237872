/// What the build knows of each message: its type id, its name, whether it is mutating.
///
/// The specializations come from the schemas (catalogue.cpp); nothing here is kept by hand.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <compare>
#include <cstdint>
#include <string_view>

namespace weir {

/// Type of a message on the wire: a hash of its schema's full name.
struct message_type {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(message_type, message_type) = default;
};

/// Specialized for every table of the schemas.
template <class T>
struct message_traits;

/// A FlatBuffers table that the schemas declare.
template <class T>
concept declared_message = requires { message_traits<T>::type; };

/// A message that changes durable state: it travels only under a lease.
template <class T>
concept mutating_message = declared_message<T> && message_traits<T>::mutating;

/// A message that changes nothing that a checkpoint would hold.
template <class T>
concept plain_message = declared_message<T> && !message_traits<T>::mutating;

namespace detail {

/// One line of the catalogue: how to name and to verify a type that came from outside.
struct message_entry {
  message_type type;
  std::string_view name;
  bool mutating;
  bool names_stream;
  bool (*verify)(flatbuffers::Verifier&);
};

template <class T>
constexpr message_entry entry_of() {
  using traits = message_traits<T>;
  return {traits::type, traits::name, traits::mutating, traits::names_stream,
          [](flatbuffers::Verifier& verifier) { return verifier.VerifyBuffer<T>(nullptr); }};
}

} // namespace detail
} // namespace weir
