#include "actors/runtime/detail/actor_access.hpp"
#include "actors/runtime/detail/border.hpp"
#include "messages/limits.hpp"

#include <algorithm>

namespace weir::detail {

publisher::~publisher() {
  while (!peers_.empty())
    part(peers_.begin()->first, "the graph of the actor was stopped");
}

link_owner publisher::owner() noexcept {
  return {actor_access::context_of(*this).self(), this};
}

bool publisher::publish(const std::string& name, address target,
                        std::vector<conversation> conversations) {
  return published_.emplace(name, published_actor{std::move(target), std::move(conversations)})
      .second;
}

void publisher::link_opened(link_id link) {
  peers_.emplace(link, std::make_unique<peer>());
}

void publisher::link_received(link_id link, const packet_header& header,
                              std::span<const std::byte> body) {
  const auto place = peers_.find(link);
  if (place == peers_.end()) return;
  auto came = open_packet(header, body, clock().now());
  if (came)
    receive(link, *place->second, *came);
  else
    link_lost(link, came.error());
}

void publisher::link_lost(link_id link, const error& why) {
  const auto place = peers_.find(link);
  if (place == peers_.end()) return;
  const std::string& asked_for = place->second->asked_for;
  if (why.code != errc::unavailable) ++counts_->refused_frames;
  ++counts_->lost_peers;
  log(log_level::warning,
      "a peer of " + (asked_for.empty() ? "nobody yet" : asked_for) + " is cut off: " + why.text);
  part(link, why.text);
}

void publisher::receive(link_id link, peer& from, frame& came) {
  const message_type type = came.type();
  if (type == message_traits<ConnectionClosed>::type) {
    part(link, "goodbye");
  } else if (from.asked_for.empty()) {
    greet(link, from, came);
  } else if (came.header.is_reply || type == message_traits<ConnectActor>::type) {
    link_lost(link, error{errc::corrupt, std::string(message_name(type)) + " came as a request"});
  } else if (came.header.request_id == 0) {
    pass_note(from.target, *this, std::move(came));
  } else if (from.requests.size() >= limits::border_asks_max) {
    refuse(link, came.header.request_id,
           error{errc::exhausted, from.asked_for + ": too many requests of one peer are served"});
  } else {
    from.requests.spawn(&publisher::serve, this, link, from.target,
                        std::make_shared<const frame>(std::move(came)));
  }
}

void publisher::greet(link_id link, peer& from, const frame& came) {
  if (came.type() != message_traits<ConnectActor>::type || came.header.is_reply) {
    link_lost(link,
              error{errc::corrupt, "the first frame is " + std::string(message_name(came.type())) +
                                       ", not ConnectActor"});
    return;
  }
  const message<ConnectActor> asked(came.content);
  auto target = find(*asked);
  if (!target) {
    const std::string reason = target.error().text;
    refuse(link, came.header.request_id, std::move(target.error()));
    part(link, reason);
    return;
  }
  from.asked_for = text_of(asked->name());
  from.target = std::move(*target);
  ++counts_->connections;
  send(link, border_frame(ActorConnectedT(), came.header.request_id, true));
}

result<address> publisher::find(const ConnectActor& asked) const {
  const std::string wanted = text_of(asked.name());
  const auto place = published_.find(wanted);
  if (wanted.empty() || place == published_.end())
    return failure(errc::not_found, "no actor is published as \"" + wanted + "\" at this port");
  const auto& offered = place->second.conversations;
  if (asked.conversations() == nullptr) return place->second.target;
  for (const auto* each : *asked.conversations()) {
    const auto same = [each](const conversation& known) {
      return known.request.value == each->request() && known.reply.value == each->reply();
    };
    if (std::ranges::none_of(offered, same))
      return failure(errc::unsupported,
                     wanted + " has no conversation of " +
                         std::string(message_name(message_type{each->request()})) + " and " +
                         std::string(message_name(message_type{each->reply()})));
  }
  return place->second.target;
}

task<void> publisher::serve(link_id link, address target, std::shared_ptr<const frame> request) {
  const envelope& header = request->header;
  auto given = co_await relay_awaiter(target, *request, limit_of(header, clock()));
  if (!overdue(header, clock())) answer_peer(link, header.request_id, given);
}

void publisher::answer_peer(link_id link, std::uint64_t request_id, const answer& given) {
  if (given.content == nullptr) {
    refuse(link, request_id, *given.reason);
    return;
  }
  frame reply;
  reply.header.request_id = request_id;
  reply.header.is_reply = true;
  reply.content = given.content;
  if (encoded_bytes(reply) > limits::border_frame_bytes_max)
    refuse(link, request_id, too_large(reply));
  else
    send(link, reply);
}

void publisher::refuse(link_id link, std::uint64_t request_id, error reason) {
  if (reason.origin.empty()) reason.origin = name();
  send(link, refusal_frame(reason, request_id));
}

void publisher::send(link_id link, const frame& sent) {
  wire_.send(link, make_packet(sent, clock().now()));
}

void publisher::part(link_id link, const std::string& reason) {
  const auto place = peers_.find(link);
  if (!place->second->asked_for.empty()) --counts_->connections;
  ConnectionClosedT goodbye;
  goodbye.reason = reason;
  send(link, border_frame(goodbye, 0, false));
  wire_.close(link);
  peers_.erase(place);
}

} // namespace weir::detail
