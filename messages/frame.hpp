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

#include "messages/block_pool.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"
#include "messages/traits.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
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

/// One immutable FlatBuffer, its type, its attachments. It lies in one block with its bytes, which
/// goes with the last reference.
class payload {
public:
  /// @pre the bytes live as long
  payload(message_type type, std::span<const std::uint8_t> bytes,
          std::vector<attachment>&& attachments) noexcept
      : type_(type), bytes_(bytes), attachments_(std::move(attachments)) {}

  [[nodiscard]] message_type type() const noexcept { return type_; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::span<const attachment> attachments() const noexcept { return attachments_; }

private:
  message_type type_;
  std::span<const std::uint8_t> bytes_;
  std::vector<attachment> attachments_;
};

using payload_ptr = std::shared_ptr<const payload>;

namespace detail {

/// Where the builder of a payload takes its bytes from: recycled blocks, each with room for the
/// payload in front. May go before the payload does.
class payload_memory final : public flatbuffers::Allocator {
public:
  /// A payload and its reference counts.
  static constexpr std::size_t head_bytes = 80;

  std::uint8_t* allocate(std::size_t bytes) override {
    return static_cast<std::uint8_t*>(take_block(head_bytes + bytes)) + head_bytes;
  }
  void deallocate(std::uint8_t* memory, std::size_t bytes) override {
    give_block(memory - head_bytes, head_bytes + bytes);
  }
};

/// The head of one block, for the one object that `std::allocate_shared` asks for; gives the whole
/// block back.
template <class T>
class head_allocator {
public:
  using value_type = T;

  head_allocator(void* block, std::size_t block_bytes) noexcept
      : block_(block), block_bytes_(block_bytes) {}
  template <class Other>
  head_allocator(const head_allocator<Other>& other) noexcept // NOLINT(google-explicit-constructor)
      : block_(other.block()), block_bytes_(other.block_bytes()) {}

  [[nodiscard]] void* block() const noexcept { return block_; }
  [[nodiscard]] std::size_t block_bytes() const noexcept { return block_bytes_; }
  [[nodiscard]] T* allocate(std::size_t) noexcept {
    static_assert(sizeof(T) <= payload_memory::head_bytes);
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(block_);
  }
  void deallocate(T* memory, std::size_t) noexcept { give_block(memory, block_bytes_); }
  friend bool operator==(const head_allocator& a, const head_allocator& b) noexcept {
    return a.block_ == b.block_;
  }

private:
  void* block_;
  std::size_t block_bytes_;
};

/// The payload of what lies in `memory`, which it takes over with all its `reserved` bytes. @pre
/// the memory is of a `payload_memory`, and the bytes are a part of it
[[nodiscard]] inline payload_ptr payload_in(std::uint8_t* memory, std::size_t reserved,
                                            message_type type, std::span<const std::uint8_t> bytes,
                                            std::vector<attachment>&& attachments) {
  const head_allocator<payload> head(memory - payload_memory::head_bytes,
                                     payload_memory::head_bytes + reserved);
  return std::allocate_shared<const payload>(head, type, bytes, std::move(attachments));
}

/// The payload of what a builder has finished. @pre the builder's memory is a `payload_memory`
[[nodiscard]] inline payload_ptr payload_of(message_type type,
                                            flatbuffers::FlatBufferBuilder& builder,
                                            std::vector<attachment>&& attachments = {}) {
  const std::size_t used = builder.GetSize();
  std::size_t reserved = 0;
  std::size_t offset = 0;
  std::uint8_t* const memory = builder.ReleaseRaw(reserved, offset);
  return payload_in(memory, reserved, type, {memory + offset, used}, std::move(attachments));
}

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
