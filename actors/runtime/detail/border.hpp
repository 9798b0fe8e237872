/// The two actors at the border of a process: what a remote handle refers to, and what a published
/// actor is reached through.
///
/// A connection is for one handle: it begins with ConnectActor, which names an actor and all the
/// conversations of the handle's protocol, and ActorConnected. Then requests and notes go one way,
/// replies and RequestRefused the other. A frame that is not what it must be ends its connection,
/// with the reason as the last frame; everything else goes on.
///
/// A remote handle is not connected again: what was asked is answered errc::unavailable when the
/// peer is lost, and so is everything later. Whether a request that was under way has been applied
/// is unknown then, as after any crash.
#pragma once

#include "actors/runtime/detail/network.hpp"
#include "actors/runtime/detail/relay.hpp"

#include <atomic>
#include <future>
#include <map>
#include <unordered_map>

namespace weir::detail {

/// Of one graph; counted by its border's actors.
struct border_counts {
  std::atomic<std::uint64_t> connections = 0; ///< That stand.
  std::atomic<std::uint64_t> lost_peers = 0;
  std::atomic<std::uint64_t> refused_frames = 0;
};

/// The actor behind a remote handle: passes frames on to a connection.
class remote_proxy final : public relay_actor, private link_user {
public:
  using protocol = weir::protocol<>;

  remote_proxy(context ctx, std::string published, std::vector<conversation> conversations,
               std::shared_ptr<border_counts> counts);
  remote_proxy(const remote_proxy&) = delete;
  remote_proxy& operator=(const remote_proxy&) = delete;
  /// Says goodbye.
  ~remote_proxy() override;

  /// Whom the network tells. @pre until it is launched
  [[nodiscard]] link_owner owner() noexcept;
  void attach(wire connected) noexcept { wire_ = std::move(connected); }
  /// Whether the peer has the actor, and it takes part in all conversations.
  [[nodiscard]] std::future<result<void>> greeted() { return greeted_.get_future(); }

private:
  friend class remote_awaiter;

  struct request_under_way {
    message_type type;
    std::size_t bytes;
  };

  task<void> run() override;
  task<void> relay(reply_guard answering, frame came) override;
  void link_opened(link_id) override {}
  void link_received(link_id link, const packet_header& header,
                     std::span<const std::byte> body) override;
  void link_lost(link_id link, const error& why) override;

  /// Why this frame is not sent, if there is a reason.
  [[nodiscard]] std::optional<error> refusal_of(const frame& asked) const;
  void send(const frame& passed);
  void send_request(const frame& passed, std::uint64_t request_id);
  void receive(frame& came);
  void answer_greeting(const frame& came);
  /// An answer to what is under way, or to nothing any more.
  void answer_request(frame& came);
  void finished(std::uint64_t request_id);
  /// The peer is lost: whoever waits is told, and whoever comes.
  void give_up(const error& why);
  void settle_greeting(result<void> outcome);

  std::string published_;
  std::vector<conversation> conversations_;
  std::shared_ptr<border_counts> counts_;
  std::promise<result<void>> greeted_;
  bool greeting_ = true; ///< Under way.
  bool connected_ = false;
  std::optional<error> lost_;
  std::unordered_map<std::uint64_t, request_under_way> under_way_;
  std::size_t bytes_under_way_ = 0;
  wire wire_;
};

/// The actor behind a port: passes what comes over its connections on to published actors.
class publisher final : public actor, private link_user {
public:
  using protocol = weir::protocol<>;

  publisher(context ctx, std::shared_ptr<border_counts> counts)
      : actor(std::move(ctx)), counts_(std::move(counts)) {}
  publisher(const publisher&) = delete;
  publisher& operator=(const publisher&) = delete;
  ~publisher() override;

  /// Whom the network tells. @pre until it is launched
  [[nodiscard]] link_owner owner() noexcept;
  void attach(wire listening) noexcept { wire_ = std::move(listening); }
  /// An actor that is reached under this name, in these conversations. False when the name is
  /// taken. Before the launch, or on this actor's turn.
  bool publish(const std::string& name, address target, std::vector<conversation> conversations);

private:
  struct published_actor {
    address target;
    std::vector<conversation> conversations;
  };
  struct peer {
    std::string asked_for; ///< Empty before the greeting.
    address target;
    scope requests; ///< Cancelled with the connection.
  };

  void link_opened(link_id link) override;
  void link_received(link_id link, const packet_header& header,
                     std::span<const std::byte> body) override;
  void link_lost(link_id link, const error& why) override;

  void receive(link_id link, peer& from, frame& came);
  void greet(link_id link, peer& from, const frame& came);
  [[nodiscard]] result<address> find(const ConnectActor& asked) const;
  task<void> serve(link_id link, address target, std::shared_ptr<const frame> request);
  void answer_peer(link_id link, std::uint64_t request_id, const answer& given);
  void refuse(link_id link, std::uint64_t request_id, error reason);
  void send(link_id link, const frame& sent);
  /// Ends a connection for a reason that the peer is told.
  void part(link_id link, const std::string& reason);

  std::shared_ptr<border_counts> counts_;
  std::map<std::string, published_actor> published_;
  std::map<link_id, std::unique_ptr<peer>> peers_;
  wire wire_;
};

/// What a graph has once it has published or connected. Destroyed after all its actors.
struct open_border {
  struct listening {
    address where;
    publisher* on; ///< Used on its own turn.
  };

  network connections;
  std::shared_ptr<border_counts> counts = std::make_shared<border_counts>();
  std::map<std::uint16_t, listening> ports;
};

} // namespace weir::detail
