#include "actors/runtime/actor.hpp"

#include "actors/runtime/detail/actor_access.hpp"
#include "actors/runtime/detail/graph_core.hpp"
#include "actors/runtime/stream.hpp"

namespace weir {

namespace detail {

namespace {

void send_answer(const address& from, const reply_memory::asker& asker, const answer& given) {
  parcel sent;
  sent.value.header.request_id = asker.request_id;
  sent.value.header.is_reply = true;
  if (given.content != nullptr) {
    sent.value.content = given.content;
  } else {
    sent.kind = parcel_kind::refusal;
    sent.reason = given.reason;
  }
  post(asker.to, from, std::move(sent));
}

void send_refusal(const address& from, const std::string& name, const request_origin& origin,
                  errc code, std::string text) {
  const error reason{code, std::move(text), name, std::string(message_name(origin.type))};
  send_answer(from, {origin.to, origin.request_id},
              {nullptr, std::make_shared<const error>(reason)});
}

} // namespace

void send_note(const address& to, payload_ptr content) {
  parcel sent;
  sent.value.content = std::move(content);
  run_queue* queue = run_queue::current();
  const ask_table* asks = queue != nullptr ? queue->host().host_asks() : nullptr;
  if (asks == nullptr) {
    post(to, address(), std::move(sent));
    return;
  }
  sent.value.header.sender = asks->asker();
  sent.value.header.life = asks->life();
  post(to, asks->self(), std::move(sent));
}

reply_guard::~reply_guard() {
  if (answering_ != nullptr)
    refuse(error{errc::cancelled, "the request was cancelled before it was answered"});
}

void reply_guard::send(answer given) noexcept {
  actor_access::answer(*std::exchange(answering_, nullptr), origin_, std::move(given));
}

void reply_guard::repeat(const answer& given) noexcept {
  actor_access::answer(*answering_, origin_, given);
}

void reply_guard::refuse(error reason) noexcept {
  if (reason.origin.empty()) reason.origin = answering_->name();
  if (reason.subject.empty()) reason.subject = message_name(origin_.type);
  send({nullptr, std::make_shared<const error>(std::move(reason))});
}

address find_actor(const actor& asking, const std::string& name) {
  return actor_access::context_of(asking).graph()->find(name);
}

void actor_access::start(actor& started) {
  started.root_.spawn(&actor::run, &started);
}

void actor_access::settle_stop(actor& stopping) {
  if (stopping.failed_ && !stopping.stopping_) stopping.begin_stop();
  // What shielded work spawned meanwhile must not outlive the members that it uses.
  if (stopping.stopping_) stopping.root_.cancel();
  if (stopping.broken_) stopping.shield_.cancel();
  stopping.queue_.go_on();
}

bool actor_access::ended(const actor& asked) noexcept {
  return asked.stopping_ && asked.shield_.size() == 0;
}

void actor_access::answer(actor& answering, const request_origin& origin,
                          weir::detail::answer given) {
  const address& self = answering.ctx_.self();
  if (!origin.lease.present()) {
    send_answer(self, {origin.to, origin.request_id}, given);
    return;
  }
  // A handler that was cancelled has applied nothing that anybody may rely on.
  const bool cancelled = given.reason != nullptr && given.reason->code == errc::cancelled;
  const auto waiting = cancelled ? answering.replies_.forget(origin.lease)
                                 : answering.replies_.settle(origin.lease, given);
  for (const auto& asker : waiting)
    send_answer(self, asker, given);
}

} // namespace detail

actor::actor(context ctx)
    : ctx_(std::move(ctx)), queue_(detail::queue_of(ctx_.self())),
      asks_(queue_, ctx_.shared(), ctx_.life()), streams_(ctx_.self()), shield_(queue_),
      root_(queue_) {
  queue_.set_host(*this);
  queue_.set_shield(&shield_);
  asks_.set_self(ctx_.self());
  // The incarnation numbers the lives of an origin: it never restarts within one.
  if (ctx_.is_origin()) gate_.emplace(queue_, ctx_.shared(), ctx_.life().value);
}

actor::~actor() = default;

task<void> actor::run() {
  co_return;
}

result<void> actor::admissible(const lease_ref&) const {
  return {};
}

mutation_gate& actor::mutations() noexcept {
  ensure(gate_.has_value(), "only an origin starts mutations");
  return *gate_;
}

void actor::host_failed(error reason) noexcept {
  broken_ = true;
  fail(std::move(reason));
}

void actor::fail(error reason) {
  failed_ = true;
  queue_.halt();
  ctx_.graph()->failed(name(), std::move(reason));
}

void actor::finish_run() {
  ctx_.graph()->finished();
}

void actor::add(std::unique_ptr<detail::handler> handler) {
  const auto type = handler->type();
  handlers_.insert_or_assign(type.value, std::move(handler));
}

actor_counters actor::counters() const {
  actor_counters counted;
  counted.live_coroutines = queue_.live();
  counted.pending_asks = asks_.pending();
  counted.unsettled_leases = gate_ ? gate_->state().unsettled() : 0;
  counted.open_streams = streams_.size();
  counted.late_answers = asks_.late_answers();
  return counted;
}

void actor::begin_stop() {
  stopping_ = true;
  root_.cancel();
}

void actor::receive(const detail::address& from, detail::parcel& came) {
  switch (came.kind) {
  case detail::parcel_kind::frame:
    receive_frame(from, came);
    return;
  case detail::parcel_kind::refusal:
    asks_.answered(came.value.header.request_id, {nullptr, std::move(came.reason)});
    return;
  case detail::parcel_kind::call:
    came.posted->run();
    return;
  case detail::parcel_kind::wake:
    queue_.timers().expire(queue_.now());
    return;
  case detail::parcel_kind::stop:
    if (came.reason != nullptr)
      fail(*came.reason);
    else if (!stopping_)
      begin_stop();
    return;
  case detail::parcel_kind::stream_open:
  case detail::parcel_kind::stream_credit:
  case detail::parcel_kind::stream_item:
  case detail::parcel_kind::stream_end:
  case detail::parcel_kind::stream_cancel:
    streams_.receive(from, came);
    return;
  }
}

void actor::receive_frame(const detail::address& from, detail::parcel& came) {
  envelope& header = came.value.header;
  if (header.is_reply)
    asks_.answered(header.request_id, {std::move(came.value.content), nullptr});
  else
    serve_request(from, came.value);
}

void actor::serve_request(const detail::address& from, frame& request) {
  envelope& header = request.header;
  detail::request_origin asked{from, header.request_id, request.type(), header.lease};
  const bool is_note = header.request_id == 0;
  const auto refuse = [&](errc code, std::string text) {
    if (is_note)
      log(log_level::warning, std::string(message_name(asked.type)) + " dropped: " + text);
    else
      detail::send_refusal(ctx_.self(), name(), asked, code, std::move(text));
  };
  const auto place = handlers_.find(asked.type.value);
  if (stopping_) return refuse(errc::unavailable, name() + " is stopping");
  // A note of a thread that is no actor has no sender, and no life that could be over.
  if (header.sender != nullptr && header.life != life())
    return refuse(errc::conflict, "sent in incarnation " + std::to_string(header.life.value) +
                                      ", this is " + std::to_string(life().value));
  if (place == handlers_.end()) {
    if (!relay_frame(asked, request)) refuse(errc::unsupported, name() + " does not answer this");
    return;
  }
  detail::handler& handler = *place->second;
  if (handler.mutating() && !header.lease.present())
    return refuse(errc::invalid_argument, "a mutating request needs a lease");
  if (handler.mutating() && !admit_leased(asked)) return;
  // A leased request is applied however late: its transaction waits for the answer.
  if (!handler.mutating() && header.deadline_ns != 0 && header.deadline_ns <= clock().now())
    return refuse(errc::timed_out, "the deadline had passed when it was read");
  root_.adopt(handler.start(*this, std::move(asked), std::move(request.content)));
}

bool actor::relay_frame(detail::request_origin&, frame&) {
  return false;
}

bool actor::admit_leased(const detail::request_origin& asked) {
  if (const auto fine = admissible(lease_ref(asked.lease)); !fine) {
    detail::send_refusal(ctx_.self(), name(), asked, fine.error().code, fine.error().text);
    return false;
  }
  detail::answer again;
  switch (replies_.admit(asked.lease, {asked.to, asked.request_id}, again)) {
  case detail::reply_memory::verdict::first:
    return true;
  case detail::reply_memory::verdict::pending:
    return false;
  case detail::reply_memory::verdict::answered:
    detail::send_answer(ctx_.self(), {asked.to, asked.request_id}, again);
    return false;
  case detail::reply_memory::verdict::fenced:
    detail::send_refusal(ctx_.self(), name(), asked, errc::conflict,
                         "instance " + std::to_string(asked.lease.instance) + " of " +
                             *asked.lease.origin + " was replaced by a newer one");
    return false;
  }
  return false;
}

} // namespace weir
