/// What goes over a connection between two graphs: packets, each of which is one encoded frame.
///
/// A packet, little endian: "WEIRPKT1", u64 bytes that follow, u64 XXH3 of them; then the frame as
/// `messages/frame.hpp` has it. Deadlines in it are what is left of them, in nanoseconds, since two
/// machines have two clocks. The length is checked before memory is taken, the checksum before
/// anything is decoded, and everything by `decode` before anything is read.
#pragma once

#include "messages/frame.hpp"
#include "messages/protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::detail {

struct packet_header {
  std::uint64_t bytes = 0; ///< Of the frame; never 0.
  std::uint64_t checksum = 0;
};
inline constexpr std::size_t packet_header_bytes = 24;

/// The bytes of a packet with this frame. The deadline is on the clock of which it is `now`.
[[nodiscard]] std::vector<std::byte> make_packet(const frame& sent, std::int64_t now);

/// An upper bound of the bytes that a frame takes in a packet.
[[nodiscard]] std::size_t encoded_bytes(const frame& value);
/// The error of a frame that takes more than `limits::border_frame_bytes_max`.
[[nodiscard]] error too_large(const frame& value);

/// Reads the header. errc::corrupt when it is none, or declares more than `bytes_max`.
/// @pre there are packet_header_bytes
[[nodiscard]] result<packet_header> read_packet_header(std::span<const std::byte> bytes,
                                                       std::uint64_t bytes_max);

/// Verifies and decodes what followed the header; the deadline is on the clock of `now` again.
[[nodiscard]] result<frame> open_packet(const packet_header& header,
                                        std::span<const std::byte> bytes, std::int64_t now);

/// A conversation by its type ids; the reply of a note is 0.
struct conversation {
  message_type request;
  message_type reply;
};

template <class Request, class Reply>
conversation conversation_of(call<Request, Reply>) {
  return {message_traits<Request>::type, message_traits<Reply>::type};
}
template <class Note>
conversation conversation_of(note<Note>) {
  return {message_traits<Note>::type, message_type()};
}
/// What a handle of this protocol can be asked and told.
template <class... Conversations>
std::vector<conversation> conversations_of(protocol<Conversations...>) {
  return {conversation_of(Conversations())...};
}

/// The first frame of a connection is a request of this id.
inline constexpr std::uint64_t greeting_id = ~std::uint64_t{0};

/// A frame of the border itself.
template <class Native>
[[nodiscard]] frame border_frame(const Native& value, std::uint64_t request_id, bool is_reply) {
  frame made;
  made.header.request_id = request_id;
  made.header.is_reply = is_reply;
  made.content = pack(value).content();
  return made;
}
[[nodiscard]] frame refusal_frame(const error& reason, std::uint64_t request_id);
[[nodiscard]] error refusal_from(const RequestRefused& refused);

} // namespace weir::detail
