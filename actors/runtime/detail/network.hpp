/// Connections between graphs, without a header of CAF: bytes in and out, in packets.
///
/// A connection or a listening port belongs to one actor. What happens on it is posted to that
/// actor's mailbox and told to its `link_user` on its own turn; what it sends is handed to the
/// network's thread. The thread exists once a graph has published or connected, not before.
#pragma once

#include "actors/runtime/detail/address.hpp"
#include "actors/runtime/detail/packet.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weir::detail {

/// A connection of one wire; never used again within it.
using link_id = std::uint64_t;
/// The only link of a wire that was connected.
inline constexpr link_id connected_link = 1;

/// Told on its actor's turn.
class link_user {
public:
  /// A peer has connected to the port.
  virtual void link_opened(link_id link) = 0;
  /// A packet came: not verified yet.
  virtual void link_received(link_id link, const packet_header& header,
                             std::span<const std::byte> body) = 0;
  /// Nothing comes any more. errc::unavailable: the peer is gone. Otherwise it did what it must
  /// not; the link can still say goodbye, and is to be closed.
  virtual void link_lost(link_id link, const error& why) = 0;

protected:
  ~link_user() = default;
};

/// The actor at `where` derives from `user`, which is used only while that one takes messages.
struct link_owner {
  address where;
  link_user* user = nullptr;
};

/// A listening port with its connections, or one connection. Destroyed, everything is closed, after
/// what was sent.
class wire {
public:
  class parts;

  wire() noexcept;
  explicit wire(std::unique_ptr<parts> made) noexcept;
  wire(wire&& other) noexcept;
  wire& operator=(wire&& other) noexcept;
  ~wire();

  /// Dropped when the link is lost or closed. A peer that does not read what was sent loses it.
  void send(link_id link, std::vector<std::byte> packet) const;
  void close(link_id link) const;

private:
  std::unique_ptr<parts> parts_;
};

class network {
public:
  network();
  network(const network&) = delete;
  network& operator=(const network&) = delete;
  /// @pre every wire is gone
  ~network();

  /// Listens on the loopback interface; port 0 takes a free one. Gives wire and port.
  [[nodiscard]] result<std::pair<wire, std::uint16_t>> listen(std::uint16_t port, link_owner owner);
  /// Blocks until the connection stands or is refused.
  [[nodiscard]] result<wire> connect(const std::string& host, std::uint16_t port, link_owner owner);

private:
  struct system_parts;
  std::unique_ptr<system_parts> system_;
};

} // namespace weir::detail
