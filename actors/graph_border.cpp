/// The part of a graph that reaches other processes.
#include "actors/graph.hpp"
#include "actors/runtime/detail/border.hpp"

namespace weir {
namespace {

/// Publishes one more actor at a port, on the turn of the port's actor.
class posted_publication final : public detail::posted_call {
public:
  posted_publication(detail::publisher& to, std::string name, detail::address shown,
                     std::vector<detail::conversation> conversations)
      : to_(to), name_(std::move(name)), shown_(std::move(shown)),
        conversations_(std::move(conversations)) {}
  [[nodiscard]] std::future<result<void>> outcome() { return outcome_.outcome(); }
  void run(actor*) noexcept override {
    if (to_.publish(name_, std::move(shown_), std::move(conversations_)))
      outcome_.set({});
    else
      outcome_.set(failure(errc::already_exists, "an actor is published as \"" + name_ +
                                                     "\" at this port already; choose another"));
  }

private:
  detail::publisher& to_;
  std::string name_;
  detail::address shown_;
  std::vector<detail::conversation> conversations_;
  detail::outcome_guard<result<void>> outcome_;
};

tl::unexpected<error> no_network() {
  return failure(errc::unsupported,
                 "a simulated graph has no network: publish and connect are for real worlds");
}

} // namespace

detail::open_border& graph::open_border() {
  if (border_ == nullptr) border_ = std::make_unique<detail::open_border>();
  return *border_;
}

graph::member graph::open_numbered(const std::string& name) {
  member added;
  added.name = name;
  for (int number = 2; core_->find(added.name); ++number)
    added.name = name + " (" + std::to_string(number) + ")";
  added.where = mailboxes_->open_mailbox(std::make_shared<const std::string>(added.name));
  return added;
}

result<std::uint16_t> graph::publish_actor(const detail::address& shown, const std::string& name,
                                           std::uint16_t port,
                                           std::vector<detail::conversation> conversations) {
  if (simulated()) return no_network();
  if (!shown || name.empty())
    return failure(errc::invalid_argument,
                   "an actor is published under a name, by a handle that is wired");
  detail::open_border& border = open_border();
  if (const auto place = border.ports.find(port); place != border.ports.end()) {
    auto posted = std::make_shared<posted_publication>(*place->second.on, name, shown,
                                                       std::move(conversations));
    auto outcome = posted->outcome();
    post_call(place->second.where, std::move(posted));
    const result<void> published = outcome.get();
    if (!published) return failure(published.error());
    return port;
  }
  member added = open_numbered("border");
  auto made = [&] {
    const run_queue::turn turn(detail::queue_of(added.where));
    return std::make_unique<detail::publisher>(context_for(added), border.counts);
  }();
  detail::publisher& on = *made;
  std::ignore = on.publish(name, shown, std::move(conversations)); // the first: no name is taken
  auto listening = border.connections.listen(port, on.owner());
  if (!listening) {
    mailboxes_->discard(added.where, std::move(made));
    return failure(std::move(listening.error()));
  }
  on.attach(std::move(listening->first));
  border.ports.emplace(listening->second, detail::open_border::listening{added.where, &on});
  added.body = std::move(made);
  enter(std::move(added));
  launch(members_.back());
  return listening->second;
}

result<detail::address> graph::connect_actor(const std::string& host, std::uint16_t port,
                                             const std::string& name,
                                             std::vector<detail::conversation> conversations,
                                             deadline_after limit) {
  if (simulated()) return no_network();
  detail::open_border& border = open_border();
  member added = open_numbered(name + "@" + host + ":" + std::to_string(port));
  auto made = [&] {
    const run_queue::turn turn(detail::queue_of(added.where));
    return std::make_unique<detail::remote_proxy>(context_for(added), name,
                                                  std::move(conversations), border.counts);
  }();
  auto greeted = made->greeted();
  auto connected = border.connections.connect(host, port, made->owner());
  if (!connected) {
    mailboxes_->discard(added.where, std::move(made));
    return failure(std::move(connected.error()));
  }
  made->attach(std::move(*connected));
  added.body = std::move(made);
  launch(added);
  result<void> outcome =
      failure(errc::timed_out, added.name + " did not answer the greeting within " +
                                   to_string(limit) + "; is it a port of a weir graph?");
  if (greeted.wait_for(limit.duration) == std::future_status::ready) outcome = greeted.get();
  const detail::address where = added.where;
  if (outcome) core_->enter(added.name, where);
  members_.push_back(std::move(added)); // even a failed one, until it has ended
  if (outcome) return where;
  end(members_.back());
  if (!members_.back().running) members_.pop_back();
  return failure(std::move(outcome.error()));
}

border_counters graph::border() const {
  border_counters counted;
  if (border_ == nullptr) return counted;
  counted.connections = border_->counts->connections;
  counted.lost_peers = border_->counts->lost_peers;
  counted.refused_frames = border_->counts->refused_frames;
  return counted;
}

} // namespace weir
