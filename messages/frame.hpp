/// The unit on the wire: an envelope, and a payload that is shared and never copied.
///
/// A payload is one immutable FlatBuffer with its attachments (byte ranges for tensors above
/// `limits::attachment_threshold_bytes`, each kept alive by its owner). Locally a frame is passed
/// by reference count. To and from a network it goes through `encode` and `decode`; `decode`
/// verifies everything before anything is read.
///
/// Encoded, little endian: magic "WEIR", u32 version, u32 type, u32 attachments, u64 request,
/// u64 trace, i64 deadline, u64 incarnation, u8 is_reply, u8 leased, u16 zero, u32 sender bytes,
/// the lease (u32 origin bytes, u32 step, u64 instance, u64 transaction, 3 x u64 epoch), u64
/// payload bytes, u64 bytes of each attachment; then sender, origin, payload, attachments, each
/// padded to 64.
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"
#include "messages/traits.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir {

/// A name that is shared by every envelope that carries it. Never null inside an envelope in use.
using shared_name = std::shared_ptr<const std::string>;

/// Immutable bytes and whatever keeps them alive: an arena, a weight buffer, a mapped file.
struct attachment {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// Copies bytes into an aligned attachment of their own.
[[nodiscard]] attachment copy_attachment(std::span<const std::byte> bytes);

/// The right under which a mutating request travels. `step` counts the requests of a transaction,
/// so that an owner recognizes a duplicate by (origin, instance, transaction, step).
struct lease_stamp {
  shared_name origin; ///< Null when the frame carries no lease.
  std::uint64_t instance = 0;
  std::uint64_t transaction = 0;
  std::uint32_t step = 0;
  epoch_id epoch;
  /// Every transaction of this instance below it is settled: nobody waits for an answer to what was
  /// sent under those, and what still comes is a duplicate.
  std::uint64_t settled_before = 0;

  [[nodiscard]] bool present() const noexcept { return origin != nullptr; }
};

/// What every frame says beside its payload.
struct envelope {
  std::uint64_t request_id = 0; ///< Echoed in the reply; 0 for notes.
  std::uint64_t trace_id = 0;
  std::int64_t deadline_ns = 0; ///< On the world's monotonic clock; 0 for none.
  weir::incarnation life;       ///< Frames of an earlier life are refused.
  bool is_reply = false;
  shared_name sender;
  lease_stamp lease;
};

/// One immutable FlatBuffer, its type, its attachments.
class payload {
public:
  payload(message_type type, flatbuffers::DetachedBuffer buffer,
          std::vector<attachment> attachments)
      : type_(type), buffer_(std::move(buffer)), attachments_(std::move(attachments)) {}

  [[nodiscard]] message_type type() const noexcept { return type_; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept {
    return {buffer_.data(), buffer_.size()};
  }
  [[nodiscard]] std::span<const attachment> attachments() const noexcept { return attachments_; }

private:
  message_type type_;
  flatbuffers::DetachedBuffer buffer_;
  std::vector<attachment> attachments_;
};

using payload_ptr = std::shared_ptr<const payload>;

namespace detail {
/// Where builders take the bytes of a payload from: recycled blocks.
[[nodiscard]] flatbuffers::Allocator& payload_memory() noexcept;
} // namespace detail

/// Envelope and payload: what actors send. Copying shares the payload.
struct frame {
  envelope header;
  payload_ptr content;

  [[nodiscard]] message_type type() const noexcept { return content->type(); }
};

/// Name of a type as its schema has it, or "unknown message" for one that no schema declares.
[[nodiscard]] std::string_view message_name(message_type type) noexcept;

/// Whether the schemas declare the type as mutating. False for unknown types.
[[nodiscard]] bool is_mutating(message_type type) noexcept;

/// Whether a message of the type says where a stream is: its receiver connects to an actor of its
/// own graph, so that such a message stays within one. False for unknown types.
[[nodiscard]] bool names_stream(message_type type) noexcept;

/// The bytes of a frame. Copies the payload: only for networks, disks and tests.
[[nodiscard]] std::vector<std::byte> encode(const frame& value);

/// Bytes of payloads and attachments that this process has copied so far: by `encode`, `decode`
/// and `copy_attachment`, which are the only places that do. Between local actors it stands still.
[[nodiscard]] std::uint64_t payload_bytes_copied() noexcept;

/// Reads a frame that came from outside. Every length, the type, and the FlatBuffer itself are
/// verified first; a failure is errc::corrupt or errc::unsupported and says what was wrong.
[[nodiscard]] result<frame> decode(std::span<const std::byte> bytes);

} // namespace weir
