/// Peers that do not keep to the rules: raw sockets that speak garbage, or the protocol badly.
#include "actors/runtime/detail/packet.hpp"
#include "messages/limits.hpp"
#include "tests/runtime/raw_peer.hpp"
#include "tests/runtime/two_graphs.hpp"

#include <doctest/doctest.h>

#include <cstring>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// The greeting of a handle of the keeper.
std::vector<std::byte> greeting() {
  ConnectActorT asked;
  asked.name = "keeper";
  return detail::make_packet(detail::border_frame(asked, detail::greeting_id, false), 0);
}

std::vector<std::byte> probe_packet(std::uint64_t request_id) {
  frame asked;
  asked.header.request_id = request_id;
  asked.header.life = incarnation(1);
  asked.content = probe().content();
  return detail::make_packet(asked, 0);
}

/// The reason with which the far graph ended the connection.
std::string reason_of(const frame& last) {
  REQUIRE(last.type() == message_traits<ConnectionClosed>::type);
  return text_of(message<ConnectionClosed>(last.content)->reason());
}

} // namespace

TEST_SUITE("runtime/garbage") {
  TEST_CASE("garbage is cut off with a reason and counted, other connections go on") {
    two_graphs test;
    const auto remote = test.connect();
    raw_peer peer = raw_peer::connected_to(test.port);
    peer.write_text("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(reason_of(peer.read_frame()) == "packet: does not begin with WEIRPKT1");
    CHECK(peer.at_end());
    CHECK(test.far.border().refused_frames == 1);
    CHECK(test.near.ask_blocking(remote, probe(), within(5s)));
  }

  TEST_CASE("a length beyond the limit is refused before memory is taken for it") {
    two_graphs test;
    raw_peer peer = raw_peer::connected_to(test.port);
    auto packet = greeting();
    const std::uint64_t bytes = limits::border_greeting_bytes_max + 1;
    std::memcpy(packet.data() + 8, &bytes, sizeof bytes);
    peer.write(packet);
    CHECK(reason_of(peer.read_frame()).starts_with("packet: declares 65537 bytes"));
  }

  TEST_CASE("a flipped bit is found by the checksum, a false frame by decode") {
    two_graphs test;
    raw_peer flipped = raw_peer::connected_to(test.port);
    auto packet = greeting();
    packet.back() ^= std::byte{1};
    flipped.write(packet);
    CHECK(reason_of(flipped.read_frame()).starts_with("packet: the checksum of its"));

    raw_peer early = raw_peer::connected_to(test.port);
    early.write(probe_packet(1));
    CHECK(reason_of(early.read_frame()) == "the first frame is Probe, not ConnectActor");
    CHECK(test.far.border().refused_frames == 2);
    CHECK(test.far.border().lost_peers == 2);
  }

  TEST_CASE("a peer that breaks off in the middle of a packet is only a lost peer") {
    two_graphs test;
    {
      raw_peer peer = raw_peer::connected_to(test.port);
      peer.write(greeting());
      CHECK(peer.read_frame().type() == message_traits<ActorConnected>::type);
      const auto packet = probe_packet(1);
      peer.write(std::span(packet).first(packet.size() / 2));
    }
    CHECK(eventually(test.env, [&] { return test.far.border().connections == 0; }));
    CHECK(test.far.border().lost_peers == 1);
    CHECK(test.far.border().refused_frames == 0);
    CHECK(test.seen() == "0 applied, 0 notes");
  }

  TEST_CASE("a peer may ask by hand, and a mutating request without a lease is refused") {
    two_graphs test;
    raw_peer peer = raw_peer::connected_to(test.port);
    peer.write(greeting());
    CHECK(peer.read_frame().type() == message_traits<ActorConnected>::type);
    peer.write(probe_packet(7));
    const frame answer = peer.read_frame();
    CHECK(answer.header.request_id == 7);
    CHECK(answer.type() == message_traits<ProbeAnswered>::type);
    frame mutating;
    mutating.header.request_id = 8;
    mutating.header.life = incarnation(1);
    mutating.content = pack(ReserveBatchT()).content();
    peer.write(detail::make_packet(mutating, 0));
    const frame refused = peer.read_frame();
    REQUIRE(refused.type() == message_traits<RequestRefused>::type);
    CHECK(text_of(message<RequestRefused>(refused.content)->text()) ==
          "a mutating request needs a lease");
  }

  TEST_CASE("an answer of the wrong type is an error of its ask alone") {
    raw_listener listening;
    two_graphs test;
    auto connecting = test.connect_later(listening.port());
    raw_peer peer = listening.accept();
    const frame asked = peer.read_frame();
    peer.write(detail::make_packet(
        detail::border_frame(ActorConnectedT(), asked.header.request_id, true), 0));
    const auto remote = connecting.get().value();
    auto wrong = test.ask_later(remote);
    const frame first = peer.read_frame();
    peer.write(detail::make_packet(
        detail::border_frame(BatchReservedT(), first.header.request_id, true), 0));
    const auto refused = wrong.get();
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::corrupt);
    CHECK(refused.error().text == remote.name() + " answered StartGroup with BatchReserved");
    CHECK(test.near.border().refused_frames == 1);
    auto right = test.ask_later(remote);
    const frame second = peer.read_frame();
    peer.write(detail::make_packet(
        detail::border_frame(GroupStartedT(), second.header.request_id, true), 0));
    CHECK(right.get());
  }

  TEST_CASE("a published port that answers garbage is no graph") {
    raw_listener listening;
    two_graphs test;
    auto connecting = test.connect_later(listening.port());
    raw_peer peer = listening.accept();
    peer.write_text("220 mail.example ESMTP, what can I do for you today?\r\n");
    const auto refused = connecting.get();
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::unavailable);
    CHECK(refused.error().text.find("packet: does not begin with WEIRPKT1") != std::string::npos);
  }

  TEST_CASE("a port that says nothing is given up at the deadline") {
    raw_listener listening;
    two_graphs test;
    const auto silent =
        test.near.connect<keeper_protocol>("127.0.0.1", listening.port(), "keeper", within(20ms));
    REQUIRE(!silent);
    CHECK(silent.error().code == errc::timed_out);
    CHECK(silent.error().text.find("did not answer the greeting within 20 ms") !=
          std::string::npos);
  }
}

} // namespace weir::test
