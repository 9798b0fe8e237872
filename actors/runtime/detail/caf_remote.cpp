/// Connections as brokers of CAF's io module: the second and last file that includes CAF.
///
/// A broker owns one wire: a listening port with its connections, or one connection. It cuts bytes
/// into packets and decides nothing else; memory for a packet is taken once its header is found to
/// be within the limits. It runs on the thread of a CAF system of its own, so that a graph without
/// remote handles has no such thread and a simulated one never sees it.
///
/// What changes for CAF 1.x: the brokers of the io module stay; how one is spawned, and the macro
/// for messages of our own, change as in caf_bridge.cpp.
#include "actors/runtime/detail/network.hpp"
#include "messages/limits.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/io/broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/multiplexer.hpp>
#include <caf/send.hpp>

#include <sys/socket.h>

#include <functional>
#include <map>
#include <optional>

namespace weir::detail {

/// From an actor to the broker of its wire.
struct wire_order {
  enum class what : std::uint8_t { send, close, end };
  what kind = what::send;
  link_id link = 0;
  std::shared_ptr<const std::vector<std::byte>> packet = {};
};

} // namespace weir::detail

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(weir::detail::wire_order)

namespace weir::detail {
namespace {

/// Told to the owner on its turn; dropped with its mailbox when it has ended.
class link_event final : public posted_call {
public:
  link_event(link_user& user, std::function<void(link_user&)> tell)
      : user_(user), tell_(std::move(tell)) {}
  void run(actor*) noexcept override { tell_(user_); }

private:
  link_user& user_;
  std::function<void(link_user&)> tell_;
};

std::span<const std::byte> bytes_of(const std::vector<char>& buffer) {
  return std::as_bytes(std::span(buffer));
}

class wire_broker final : public caf::io::broker {
public:
  wire_broker(caf::actor_config& config, link_owner owner, caf::io::doorman_ptr doorman,
              caf::io::scribe_ptr scribe)
      : caf::io::broker(config), owner_(std::move(owner)), doorman_(std::move(doorman)),
        scribe_(std::move(scribe)) {}

protected:
  caf::behavior make_behavior() override {
    if (doorman_) add_doorman(std::exchange(doorman_, nullptr));
    if (scribe_) {
      const auto handle = scribe_->hdl();
      add_scribe(std::exchange(scribe_, nullptr));
      open(handle);
    }
    return {
        [this](const caf::io::new_connection_msg& came) {
          const link_id link = open(came.handle);
          tell([link](link_user& user) { user.link_opened(link); });
        },
        [this](caf::io::new_data_msg& came) { read(came); },
        [this](const caf::io::connection_closed_msg& gone) { closed(gone.handle); },
        [](const caf::io::acceptor_closed_msg&) {},
        [this](const wire_order& order) { obey(order); },
    };
  }

private:
  using handle_type = caf::io::connection_handle;

  struct connection {
    handle_type handle;
    std::optional<packet_header> header = {}; ///< Of the packet whose bytes come next.
    bool greeted = false;
    bool refused = false; ///< What still comes is ignored.
  };

  link_id open(handle_type handle) {
    const link_id link = ++opened_;
    links_.emplace(link, connection{handle});
    numbers_.emplace(handle, link);
    configure_read(handle, caf::io::receive_policy::exactly(packet_header_bytes));
    return link;
  }

  void tell(std::function<void(link_user&)> what) {
    parcel sent;
    sent.kind = parcel_kind::call;
    sent.posted = std::make_shared<link_event>(*owner_.user, std::move(what));
    post(owner_.where, weir::detail::address(), std::move(sent));
  }

  void read(caf::io::new_data_msg& came) {
    const auto place = numbers_.find(came.handle);
    if (place == numbers_.end()) return;
    connection& from = links_.at(place->second);
    if (from.refused) return;
    std::size_t next = packet_header_bytes;
    if (from.header) {
      receive(place->second, from, std::move(came.buf));
    } else {
      const auto header =
          read_packet_header(bytes_of(came.buf), from.greeted ? limits::border_frame_bytes_max
                                                              : limits::border_greeting_bytes_max);
      if (!header) return refuse(place->second, from, header.error());
      from.header = *header;
      next = static_cast<std::size_t>(header->bytes);
    }
    configure_read(from.handle, caf::io::receive_policy::exactly(next));
  }

  void receive(link_id link, connection& from, std::vector<char> bytes) {
    const auto body = std::make_shared<const std::vector<char>>(std::move(bytes));
    const packet_header header = *std::exchange(from.header, std::nullopt);
    from.greeted = true;
    tell([link, header, body](link_user& user) {
      user.link_received(link, header, bytes_of(*body));
    });
  }

  void refuse(link_id link, connection& from, const error& why) {
    from.refused = true;
    tell([link, why](link_user& user) { user.link_lost(link, why); });
  }

  void closed(handle_type handle) {
    const auto place = numbers_.find(handle);
    if (place == numbers_.end()) return;
    const link_id link = place->second;
    forget(link);
    tell([link](link_user& user) {
      user.link_lost(link, error{errc::unavailable, "the connection was lost"});
    });
  }

  void obey(const wire_order& order) {
    if (order.kind == wire_order::what::end) {
      while (!links_.empty())
        hang_up(links_.begin()->first);
      quit();
      return;
    }
    const auto place = links_.find(order.link);
    if (place == links_.end()) return;
    if (order.kind == wire_order::what::close)
      hang_up(order.link);
    else
      write_to(place->first, place->second, *order.packet);
  }

  void write_to(link_id link, connection& to, const std::vector<std::byte>& packet) {
    if (wr_buf(to.handle).size() + packet.size() > limits::border_unread_bytes_max) {
      if (!to.refused)
        refuse(link, to, error{errc::exhausted, "the peer does not read what it is sent"});
      return;
    }
    write(to.handle, packet.size(), packet.data());
    flush(to.handle);
  }

  void hang_up(link_id link) {
    const handle_type handle = links_.at(link).handle;
    forget(link);
    close(handle);
    // What was written is sent still. Nothing more is read: CAF would wait for the peer to close
    // its end as well, and one that never does would keep the network's thread for ever.
    ::shutdown(static_cast<int>(handle.id()), SHUT_RD);
  }

  void forget(link_id link) {
    const auto place = links_.find(link);
    numbers_.erase(place->second.handle);
    links_.erase(place);
  }

  link_owner owner_;
  caf::io::doorman_ptr doorman_; ///< Until the broker runs.
  caf::io::scribe_ptr scribe_;   ///< Until the broker runs.
  std::map<link_id, connection> links_;
  std::map<handle_type, link_id> numbers_;
  link_id opened_ = 0;
};

} // namespace

class wire::parts {
public:
  explicit parts(caf::actor broker) : broker_(std::move(broker)) {}
  parts(const parts&) = delete;
  parts& operator=(const parts&) = delete;
  ~parts() { order({.kind = wire_order::what::end}); }

  void order(wire_order what) const { caf::anon_send(broker_, std::move(what)); }

private:
  caf::actor broker_;
};

wire::wire() noexcept = default;
wire::wire(std::unique_ptr<parts> made) noexcept : parts_(std::move(made)) {}
wire::wire(wire&& other) noexcept = default;
wire& wire::operator=(wire&& other) noexcept = default;
wire::~wire() = default;

void wire::send(link_id link, std::vector<std::byte> packet) const {
  if (parts_ == nullptr) return;
  auto shared = std::make_shared<const std::vector<std::byte>>(std::move(packet));
  parts_->order({wire_order::what::send, link, std::move(shared)});
}

void wire::close(link_id link) const {
  if (parts_ != nullptr) parts_->order({.kind = wire_order::what::close, .link = link});
}

struct network::system_parts {
  system_parts() : system(configure(config)) {}

  static caf::actor_system_config& configure(caf::actor_system_config& config) {
    config.load<caf::io::middleman>();
    // Brokers run on the thread of the io module; nothing else is ever scheduled here.
    config.set("scheduler.max-threads", std::size_t{1});
    config.set("middleman.workers", std::size_t{0});
    return config;
  }

  [[nodiscard]] wire spawn(link_owner owner, caf::io::doorman_ptr doorman,
                           caf::io::scribe_ptr scribe) {
    caf::actor_config made{&system.middleman().backend()};
    auto broker = system.spawn_class<wire_broker, caf::no_spawn_options>(
        made, std::move(owner), std::move(doorman), std::move(scribe));
    return wire(std::make_unique<wire::parts>(std::move(broker)));
  }

  caf::actor_system_config config;
  caf::actor_system system;
};

network::network() : system_(std::make_unique<system_parts>()) {}
network::~network() = default;

result<std::pair<wire, std::uint16_t>> network::listen(std::uint16_t port, link_owner owner) {
  auto& io = system_->system.middleman().backend();
  auto doorman = io.new_tcp_doorman(port, "127.0.0.1");
  if (!doorman)
    return failure(errc::unavailable, "port " + std::to_string(port) +
                                          " of 127.0.0.1 cannot be listened to: it is in use, or "
                                          "not allowed; 0 takes a free one");
  const std::uint16_t bound = (*doorman)->port();
  return std::pair(system_->spawn(std::move(owner), std::move(*doorman), nullptr), bound);
}

result<wire> network::connect(const std::string& host, std::uint16_t port, link_owner owner) {
  auto scribe = system_->system.middleman().backend().new_tcp_scribe(host, port);
  if (!scribe)
    return failure(errc::unavailable, "nobody listens at " + host + ":" + std::to_string(port));
  return system_->spawn(std::move(owner), nullptr, std::move(*scribe));
}

} // namespace weir::detail
