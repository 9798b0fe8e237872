/// The other end of a connection as a plain socket, for peers that a graph would never be.
#pragma once

#include "actors/runtime/detail/packet.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::test {

class open_socket {
public:
  explicit open_socket(int number) : number_(number) { REQUIRE(number >= 0); }
  open_socket(open_socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  open_socket& operator=(open_socket&&) = delete;
  ~open_socket() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int number() const noexcept { return number_; }

private:
  int number_;
};

[[nodiscard]] inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

/// Blocking: every read and write is all or nothing.
class raw_peer {
public:
  explicit raw_peer(int number) : socket_(number) {}
  [[nodiscard]] static raw_peer connected_to(std::uint16_t port) {
    raw_peer made(::socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in at = loopback(port);
    REQUIRE(::connect(made.socket_.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at) ==
            0);
    return made;
  }

  void write(std::span<const std::byte> bytes) const {
    REQUIRE(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  void write_text(std::string_view text) const { write(std::as_bytes(std::span(text))); }
  [[nodiscard]] frame read_frame() const {
    const auto head = read(detail::packet_header_bytes);
    const auto header = detail::read_packet_header(head, 1 << 20);
    REQUIRE(header);
    const auto body = read(static_cast<std::size_t>(header->bytes));
    auto came = detail::open_packet(*header, body, 0);
    REQUIRE(came);
    return std::move(*came);
  }
  /// Waits for the end of the connection.
  [[nodiscard]] bool at_end() const {
    char byte = 0;
    return ::recv(socket_.number(), &byte, 1, 0) <= 0;
  }

private:
  [[nodiscard]] std::vector<std::byte> read(std::size_t count) const {
    std::vector<std::byte> bytes(count);
    REQUIRE(::recv(socket_.number(), bytes.data(), count, MSG_WAITALL) ==
            static_cast<ssize_t>(count));
    return bytes;
  }

  open_socket socket_;
};

class raw_listener {
public:
  raw_listener() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = loopback(0);
    socklen_t length = sizeof at;
    REQUIRE(::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&at), length) == 0);
    REQUIRE(::listen(socket_.number(), 1) == 0);
    REQUIRE(::getsockname(socket_.number(), reinterpret_cast<sockaddr*>(&at), &length) == 0);
    port_ = ntohs(at.sin_port);
  }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] raw_peer accept() const {
    return raw_peer(::accept(socket_.number(), nullptr, nullptr));
  }

private:
  open_socket socket_;
  std::uint16_t port_ = 0;
};

} // namespace weir::test
