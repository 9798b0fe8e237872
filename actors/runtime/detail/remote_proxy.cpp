#include "actors/runtime/detail/actor_access.hpp"
#include "actors/runtime/detail/border.hpp"
#include "messages/limits.hpp"

#include <algorithm>

namespace weir::detail {

/// Waits for the answer to a frame that is passed on over the connection.
class [[nodiscard]] remote_awaiter final : public passing_waiter {
public:
  remote_awaiter(remote_proxy& proxy, const frame& passed, deadline_after limit)
      : passing_waiter(actor_access::context_of(proxy).self(), passed, limit), proxy_(proxy) {}

private:
  void send(const address&, std::uint64_t request_id) override {
    request_id_ = request_id;
    proxy_.send_request(passed(), request_id);
  }

public:
  ~remote_awaiter() override { proxy_.finished(request_id_); }

private:
  remote_proxy& proxy_;
  std::uint64_t request_id_ = 0;
};

remote_proxy::remote_proxy(context ctx, std::string published,
                           std::vector<conversation> conversations,
                           std::shared_ptr<border_counts> counts)
    : relay_actor(std::move(ctx)), published_(std::move(published)),
      conversations_(std::move(conversations)), counts_(std::move(counts)) {}

remote_proxy::~remote_proxy() {
  settle_greeting(failure(errc::cancelled, name() + ": the graph was stopped"));
  if (lost_) return;
  ConnectionClosedT goodbye;
  goodbye.reason = "the graph of the handle was stopped";
  send(border_frame(goodbye, 0, false));
  if (connected_) --counts_->connections;
}

link_owner remote_proxy::owner() noexcept {
  return {actor_access::context_of(*this).self(), this};
}

task<void> remote_proxy::run() {
  ConnectActorT greeting;
  greeting.name = published_;
  for (const conversation& each : conversations_) {
    auto described = std::make_unique<BorderConversationT>();
    described->request = each.request.value;
    described->reply = each.reply.value;
    greeting.conversations.push_back(std::move(described));
  }
  send(border_frame(greeting, greeting_id, false));
  co_return;
}

task<void> remote_proxy::relay(reply_guard answering, frame came) {
  const bool is_note = came.header.request_id == 0;
  if (auto refused = refusal_of(came)) {
    if (is_note)
      log(log_level::warning,
          std::string(message_name(came.type())) + " dropped: " + refused->text);
    else
      answering.refuse(std::move(*refused));
    co_return;
  }
  if (is_note) {
    send(came);
    co_return;
  }
  auto given = co_await remote_awaiter(*this, came, limit_of(came.header, clock()));
  if (overdue(came.header, clock()))
    answering.drop();
  else
    answering.pass_on(std::move(given));
}

std::optional<error> remote_proxy::refusal_of(const frame& asked) const {
  if (lost_) return lost_;
  if (names_stream(asked.type()))
    return error{errc::unsupported, std::string(message_name(asked.type())) +
                                        " names a stream, and streams do not leave their graph: " +
                                        name() + " is remote"};
  const std::size_t bytes = encoded_bytes(asked);
  if (bytes > limits::border_frame_bytes_max) return too_large(asked);
  if (asked.header.request_id == 0) return std::nullopt;
  if (under_way_.size() >= limits::border_asks_max ||
      bytes_under_way_ + bytes > limits::border_ask_bytes_max)
    return error{errc::exhausted, name() + ": " + std::to_string(under_way_.size()) +
                                      " requests with " + std::to_string(bytes_under_way_) +
                                      " bytes wait for answers already"};
  return std::nullopt;
}

void remote_proxy::send(const frame& passed) {
  wire_.send(connected_link, make_packet(passed, clock().now()));
}

void remote_proxy::send_request(const frame& passed, std::uint64_t request_id) {
  frame sent = passed;
  sent.header.request_id = request_id;
  const std::size_t bytes = encoded_bytes(sent);
  under_way_.emplace(request_id, request_under_way{sent.type(), bytes});
  bytes_under_way_ += bytes;
  send(sent);
}

void remote_proxy::finished(std::uint64_t request_id) {
  const auto place = under_way_.find(request_id);
  if (place == under_way_.end()) return;
  bytes_under_way_ -= place->second.bytes;
  under_way_.erase(place);
}

void remote_proxy::link_received(link_id, const packet_header& header,
                                 std::span<const std::byte> body) {
  if (lost_) return;
  auto came = open_packet(header, body, clock().now());
  if (came)
    receive(*came);
  else
    give_up(came.error());
}

void remote_proxy::link_lost(link_id, const error& why) {
  give_up(why);
}

void remote_proxy::receive(frame& came) {
  const message_type type = came.type();
  if (type == message_traits<ConnectionClosed>::type) {
    const message<ConnectionClosed> goodbye(came.content);
    give_up(
        error{errc::unavailable, "the peer closed the connection: " + text_of(goodbye->reason())});
  } else if (!came.header.is_reply) {
    give_up(error{errc::corrupt,
                  "the peer sent " + std::string(message_name(type)) + ", which is no answer"});
  } else if (came.header.request_id == greeting_id) {
    answer_greeting(came);
  } else {
    answer_request(came);
  }
}

void remote_proxy::answer_greeting(const frame& came) {
  if (came.type() == message_traits<ActorConnected>::type) {
    connected_ = true;
    ++counts_->connections;
    settle_greeting({});
    return;
  }
  if (came.type() == message_traits<RequestRefused>::type) {
    const message<RequestRefused> refused(came.content);
    lost_ = refusal_from(*refused);
    settle_greeting(failure(*lost_));
    return;
  }
  give_up(error{errc::corrupt,
                "the peer answered the greeting with " + std::string(message_name(came.type()))});
}

void remote_proxy::answer_request(frame& came) {
  ask_table& asks = actor_access::asks(*this);
  const std::uint64_t request_id = came.header.request_id;
  const auto place = under_way_.find(request_id);
  const message_type type = came.type();
  if (place == under_way_.end()) {
    asks.answered(request_id, {}); // late: counted and dropped
    return;
  }
  if (type == message_traits<RequestRefused>::type) {
    const message<RequestRefused> refused(came.content);
    asks.answered(request_id, {nullptr, std::make_shared<const error>(refusal_from(*refused))});
    return;
  }
  const auto asked = std::ranges::find(conversations_, place->second.type, &conversation::request);
  if (asked != conversations_.end() && asked->reply == type) {
    asks.answered(request_id, {came.content, nullptr});
    return;
  }
  ++counts_->refused_frames;
  const error wrong{errc::corrupt, name() + " answered " +
                                       std::string(message_name(place->second.type)) + " with " +
                                       std::string(message_name(type))};
  log(log_level::warning, wrong.text);
  asks.answered(request_id, {nullptr, std::make_shared<const error>(wrong)});
}

void remote_proxy::give_up(const error& why) {
  if (lost_) return;
  lost_ = error{errc::unavailable, name() + " is lost: " + why.text + "; connect again"};
  if (why.code != errc::unavailable) {
    ++counts_->refused_frames;
    ConnectionClosedT goodbye;
    goodbye.reason = why.text;
    send(border_frame(goodbye, 0, false));
  }
  ++counts_->lost_peers;
  if (connected_) --counts_->connections;
  wire_ = wire();
  if (greeting_)
    settle_greeting(failure(*lost_));
  else
    log(log_level::warning, lost_->text);
  const auto reason = std::make_shared<const error>(*lost_);
  ask_table& asks = actor_access::asks(*this);
  for (const auto& [request_id, request] : under_way_)
    asks.answered(request_id, {nullptr, reason});
}

void remote_proxy::settle_greeting(result<void> outcome) {
  if (std::exchange(greeting_, false)) greeted_.set_value(std::move(outcome));
}

} // namespace weir::detail
