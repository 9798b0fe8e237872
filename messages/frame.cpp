#include "messages/frame.hpp"

#include "messages/limits.hpp"
#include "messages/message_list.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>

namespace weir {

static_assert(std::endian::native == std::endian::little, "frames are little endian in place");

namespace {

constexpr char magic[4] = {'W', 'E', 'I', 'R'};
constexpr std::uint32_t wire_version = 2;
constexpr std::size_t name_bytes_max = 4096;

/// The fixed part of an encoded frame. Every byte of it is a field: nothing is left unset.
struct wire_header {
  char magic[4] = {'W', 'E', 'I', 'R'};
  std::uint32_t version = wire_version;
  std::uint32_t type = 0;
  std::uint32_t attachments = 0;
  std::uint64_t request_id = 0;
  std::uint64_t trace_id = 0;
  std::int64_t deadline_ns = 0;
  std::uint64_t life = 0;
  std::uint8_t is_reply = 0;
  std::uint8_t leased = 0;
  std::uint16_t zero = 0;
  std::uint32_t sender_bytes = 0;
  std::uint32_t origin_bytes = 0;
  std::uint32_t lease_step = 0;
  std::uint64_t lease_instance = 0;
  std::uint64_t lease_transaction = 0;
  std::uint64_t lease_epoch[3] = {0, 0, 0};
  std::uint64_t lease_settled_before = 0;
  std::uint64_t payload_bytes = 0;
};
static_assert(sizeof(wire_header) == 120 && std::is_trivially_copyable_v<wire_header>);

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + limits::tensor_alignment_bytes - 1) / limits::tensor_alignment_bytes *
         limits::tensor_alignment_bytes;
}

std::atomic<std::uint64_t>& copied_bytes() noexcept {
  static std::atomic<std::uint64_t> count = 0;
  return count;
}

void count_copy(std::size_t bytes) noexcept {
  copied_bytes().fetch_add(bytes, std::memory_order_relaxed);
}

void append(std::vector<std::byte>& out, const void* bytes, std::size_t count) {
  const auto* const first = static_cast<const std::byte*>(bytes);
  out.insert(out.end(), first, first + count);
  out.resize(padded(out.size()));
}

/// Reads the padded parts of an encoded frame one after the other; `ok` stays false once one is
/// not wholly there.
class part_reader {
public:
  part_reader(std::span<const std::byte> bytes, std::size_t offset)
      : bytes_(bytes), offset_(offset) {}

  std::span<const std::byte> next(std::uint64_t count) {
    if (!ok_ || offset_ > bytes_.size() || count > bytes_.size() - offset_) {
      ok_ = false;
      return {};
    }
    const auto part = bytes_.subspan(offset_, static_cast<std::size_t>(count));
    offset_ += padded(part.size());
    return part;
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return ok_ && offset_ == bytes_.size(); }

private:
  std::span<const std::byte> bytes_;
  std::size_t offset_;
  bool ok_ = true;
};

shared_name name_from(std::span<const std::byte> bytes) {
  return std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()),
                                             bytes.size());
}

result<wire_header> read_header(std::span<const std::byte> bytes) {
  wire_header header;
  if (bytes.size() < sizeof header)
    return failure(errc::corrupt,
                   "frame: " + std::to_string(bytes.size()) + " bytes are less than a header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, magic, sizeof magic) != 0)
    return failure(errc::corrupt, "frame: does not begin with WEIR");
  if (header.version != wire_version)
    return failure(errc::unsupported, "frame: wire version " + std::to_string(header.version) +
                                          ", this build speaks " + std::to_string(wire_version));
  const bool flags_are_valid = header.is_reply <= 1 && header.leased <= 1 && header.zero == 0;
  const bool lease_is_valid = header.leased == 1 || header.origin_bytes == 0;
  if (!flags_are_valid || !lease_is_valid)
    return failure(errc::corrupt, "frame: a flag of the header has no meaning");
  if (header.sender_bytes > name_bytes_max || header.origin_bytes > name_bytes_max)
    return failure(errc::corrupt, "frame: a name longer than " + std::to_string(name_bytes_max));
  if (header.payload_bytes > limits::payload_bytes_max ||
      header.attachments > limits::attachments_max)
    return failure(errc::corrupt, "frame: declares more bytes or attachments than the limits");
  return header;
}

/// A payload with a copy of the bytes.
payload_ptr copied_payload(message_type type, std::span<const std::byte> bytes,
                           std::vector<attachment>&& attachments) {
  detail::payload_memory blocks;
  std::uint8_t* const memory = blocks.allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  count_copy(bytes.size());
  return detail::payload_in(memory, bytes.size(), type, {memory, bytes.size()},
                            std::move(attachments));
}

/// Whether the payload is a FlatBuffer of its declared type.
result<void> verify(const detail::message_entry& entry, const payload& read) {
  flatbuffers::Verifier verifier(read.bytes().data(), read.bytes().size(),
                                 limits::verifier_depth_max, limits::verifier_tables_max);
  if (!entry.verify(verifier))
    return failure(errc::corrupt, "frame: the payload is not a valid " + std::string(entry.name));
  return {};
}

} // namespace

attachment copy_attachment(std::span<const std::byte> bytes) {
  constexpr std::align_val_t alignment{limits::tensor_alignment_bytes};
  auto* const memory =
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes.size(), 1), alignment));
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  count_copy(bytes.size());
  const auto release = [](const void* first) {
    ::operator delete(const_cast<void*>(first), alignment);
  };
  return {std::shared_ptr<const void>(memory, release), {memory, bytes.size()}};
}

std::string_view message_name(message_type type) noexcept {
  const auto* const entry = detail::find_message(type);
  return entry != nullptr ? entry->name : "unknown message";
}

bool is_mutating(message_type type) noexcept {
  const auto* const entry = detail::find_message(type);
  return entry != nullptr && entry->mutating;
}

bool names_stream(message_type type) noexcept {
  const auto* const entry = detail::find_message(type);
  return entry != nullptr && entry->names_stream;
}

std::uint64_t payload_bytes_copied() noexcept {
  return copied_bytes().load(std::memory_order_relaxed);
}

std::vector<std::byte> encode(const frame& value) {
  ensure(value.content != nullptr, "an encoded frame has a payload");
  const envelope& from = value.header;
  const std::string sender = from.sender ? *from.sender : std::string();
  const std::string origin = from.lease.present() ? *from.lease.origin : std::string();
  wire_header header;
  header.type = value.type().value;
  header.attachments = static_cast<std::uint32_t>(value.content->attachments().size());
  header.request_id = from.request_id;
  header.trace_id = from.trace_id;
  header.deadline_ns = from.deadline_ns;
  header.life = from.life.value;
  header.is_reply = from.is_reply ? 1 : 0;
  header.leased = from.lease.present() ? 1 : 0;
  header.sender_bytes = static_cast<std::uint32_t>(sender.size());
  header.origin_bytes = static_cast<std::uint32_t>(origin.size());
  header.lease_step = from.lease.step;
  header.lease_instance = from.lease.instance;
  header.lease_transaction = from.lease.transaction;
  header.lease_epoch[0] = from.lease.epoch.incarnation;
  header.lease_epoch[1] = from.lease.epoch.life;
  header.lease_epoch[2] = from.lease.epoch.number;
  header.lease_settled_before = from.lease.settled_before;
  header.payload_bytes = value.content->bytes().size();

  std::vector<std::uint64_t> sizes;
  for (const attachment& part : value.content->attachments())
    sizes.push_back(part.bytes.size());
  std::vector<std::byte> out;
  append(out, &header, sizeof header);
  append(out, sizes.data(), sizes.size() * sizeof(std::uint64_t));
  append(out, sender.data(), sender.size());
  append(out, origin.data(), origin.size());
  append(out, value.content->bytes().data(), value.content->bytes().size());
  count_copy(value.content->bytes().size());
  for (const attachment& part : value.content->attachments()) {
    append(out, part.bytes.data(), part.bytes.size());
    count_copy(part.bytes.size());
  }
  return out;
}

result<frame> decode(std::span<const std::byte> bytes) {
  const auto header = read_header(bytes);
  if (!header) return failure(header.error());
  const auto* const entry = detail::find_message(message_type{header->type});
  if (entry == nullptr)
    return failure(errc::unsupported,
                   "frame: message type " + std::to_string(header->type) + " is not declared");

  part_reader parts(bytes, padded(sizeof(wire_header)));
  const auto size_bytes = parts.next(header->attachments * sizeof(std::uint64_t));
  const auto sender = parts.next(header->sender_bytes);
  const auto origin = parts.next(header->origin_bytes);
  const auto payload_bytes = parts.next(header->payload_bytes);
  std::vector<attachment> attachments;
  for (std::size_t i = 0; parts.ok() && i < header->attachments; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, size_bytes.data() + i * sizeof size, sizeof size);
    const auto part = parts.next(std::min<std::uint64_t>(size, limits::attachment_bytes_max));
    if (parts.ok()) attachments.push_back(copy_attachment(part));
  }
  if (!parts.at_end())
    return failure(errc::corrupt, "frame: " + std::string(entry->name) +
                                      ": its parts do not fill the " +
                                      std::to_string(bytes.size()) + " bytes that came");

  frame value;
  value.content = copied_payload(entry->type, payload_bytes, std::move(attachments));
  if (auto valid = verify(*entry, *value.content); !valid) return failure(std::move(valid.error()));
  value.header.request_id = header->request_id;
  value.header.trace_id = header->trace_id;
  value.header.deadline_ns = header->deadline_ns;
  value.header.life = incarnation(header->life);
  value.header.is_reply = header->is_reply == 1;
  value.header.sender = name_from(sender);
  if (header->leased == 1)
    value.header.lease = {name_from(origin),
                          header->lease_instance,
                          header->lease_transaction,
                          header->lease_step,
                          {header->lease_epoch[0], header->lease_epoch[1], header->lease_epoch[2]},
                          header->lease_settled_before};
  return value;
}

} // namespace weir
