#include "actors/runtime/detail/packet.hpp"

#include "messages/limits.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace weir::detail {
namespace {

constexpr char magic[8] = {'W', 'E', 'I', 'R', 'P', 'K', 'T', '1'};
static_assert(sizeof magic + 2 * sizeof(std::uint64_t) == packet_header_bytes);

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

} // namespace

std::vector<std::byte> make_packet(const frame& sent, std::int64_t now) {
  frame relative = sent;
  std::int64_t& deadline = relative.header.deadline_ns;
  // One that has passed is sent as the shortest: 0 would mean that there is none.
  if (deadline != 0) deadline = std::max<std::int64_t>(deadline - now, 1);
  const std::vector<std::byte> body = encode(relative);
  const packet_header header{body.size(), checksum_of(body)};
  std::vector<std::byte> packet(packet_header_bytes + body.size());
  std::memcpy(packet.data(), magic, sizeof magic);
  std::memcpy(packet.data() + 8, &header.bytes, sizeof header.bytes);
  std::memcpy(packet.data() + 16, &header.checksum, sizeof header.checksum);
  std::memcpy(packet.data() + packet_header_bytes, body.data(), body.size());
  return packet;
}

std::size_t encoded_bytes(const frame& value) {
  // Header, names and padding of the parts: far less than a megabyte.
  std::size_t bytes = 1024 * 1024 + value.content->bytes().size();
  for (const attachment& each : value.content->attachments())
    bytes += each.bytes.size();
  return bytes;
}

error too_large(const frame& value) {
  return {errc::exhausted, std::string(message_name(value.type())) + " of " +
                               std::to_string(encoded_bytes(value)) +
                               " bytes is too large for another process; at most " +
                               std::to_string(limits::border_frame_bytes_max) + " can be sent"};
}

result<packet_header> read_packet_header(std::span<const std::byte> bytes,
                                         std::uint64_t bytes_max) {
  ensure(bytes.size() == packet_header_bytes, "the header of a packet was read as a whole");
  if (std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    return failure(errc::corrupt, "packet: does not begin with WEIRPKT1");
  packet_header header;
  std::memcpy(&header.bytes, bytes.data() + 8, sizeof header.bytes);
  std::memcpy(&header.checksum, bytes.data() + 16, sizeof header.checksum);
  if (header.bytes == 0 || header.bytes > bytes_max)
    return failure(errc::corrupt, "packet: declares " + std::to_string(header.bytes) +
                                      " bytes, allowed are 1 to " + std::to_string(bytes_max));
  return header;
}

result<frame> open_packet(const packet_header& header, std::span<const std::byte> bytes,
                          std::int64_t now) {
  if (bytes.size() != header.bytes || checksum_of(bytes) != header.checksum)
    return failure(errc::corrupt, "packet: the checksum of its " + std::to_string(bytes.size()) +
                                      " bytes differs");
  auto came = decode(bytes);
  if (!came) return came;
  envelope& read = came->header;
  if (read.deadline_ns < 0) return failure(errc::corrupt, "packet: its deadline is negative");
  constexpr std::int64_t farthest = std::numeric_limits<std::int64_t>::max();
  if (read.deadline_ns != 0)
    read.deadline_ns = read.deadline_ns > farthest - now ? farthest : read.deadline_ns + now;
  // A thread that is no actor has no name.
  if (read.sender->empty()) read.sender = nullptr;
  return came;
}

frame refusal_frame(const error& reason, std::uint64_t request_id) {
  RequestRefusedT refused;
  refused.code = static_cast<std::uint8_t>(reason.code);
  refused.text = reason.text;
  refused.origin = reason.origin;
  refused.subject = reason.subject;
  return border_frame(refused, request_id, true);
}

error refusal_from(const RequestRefused& refused) {
  const bool known = refused.code() <= static_cast<std::uint8_t>(errc::internal);
  return {known ? static_cast<errc>(refused.code()) : errc::internal, text_of(refused.text()),
          text_of(refused.origin()), text_of(refused.subject())};
}

} // namespace weir::detail
