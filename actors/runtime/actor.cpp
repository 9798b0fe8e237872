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
  if (answering_ != nullptr) refuse(actor_access::unanswered(*answering_));
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

bool actor_access::settle_stop(actor& stopping) {
  if (stopping.failed_ && !stopping.stopping_) stopping.begin_stop();
  if (stopping.stopping_) stopping.root_.cancel(); // What shielded work spawned meanwhile.
  if (stopping.broken_) stopping.shield_.cancel();
  stopping.queue_.go_on();
  return stopping.stopping_ && stopping.shield_.size() == 0;
}

void actor_access::leave(actor& leaving, error reason) {
  if (leaving.stopping_ || leaving.failed_) return;
  leaving.ends_for_ = std::move(reason);
  leaving.begin_stop();
}

void actor_access::answer(actor& answering, const request_origin& origin,
                          weir::detail::answer given) {
  const address& self = answering.ctx_.self();
  if (!origin.lease.present()) {
    send_answer(self, {origin.to, origin.request_id}, given);
    return;
  }
  // A handler that was cancelled has applied nothing that anybody may rely on.
  const bool cancelled =
      given.reason != nullptr && (given.reason->code == errc::cancelled || answering.failed_);
  const auto waiting = cancelled ? answering.replies_.forget(origin.lease)
                                 : answering.replies_.settle(origin.lease, given);
  for (const auto& asker : waiting)
    send_answer(self, asker, given);
}

} // namespace detail

actor::actor(context ctx)
    : ctx_(std::move(ctx)), queue_(detail::queue_of(ctx_.self())),
      asks_(queue_, ctx_.shared(), ctx_.life()), streams_(queue_, ctx_.self()), shield_(queue_),
      root_(queue_) {
  queue_.set_host(this);
  queue_.set_shield(&shield_);
  asks_.set_self(ctx_.self());
  // The incarnation numbers the lives of an origin: it never restarts within one.
  if (ctx_.is_origin()) gate_.emplace(queue_, ctx_.shared(), ctx_.life().value);
}

actor::~actor() = default;

result<void> actor::check_graph(const graph_roster&) const {
  return {};
}

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
  log(log_level::error, "failed in\n" + dump_tasks(*this));
  fail(std::move(reason));
}

void actor::fail(error reason) {
  if (reason.origin.empty()) reason.origin = name();
  if (!failed_) ends_for_ = reason;
  failed_ = true;
  queue_.halt();
  if (ctx_.is_supervised())
    log(log_level::error, to_string(reason)); // The supervisor is told at the end of the life.
  else
    ctx_.graph()->failed(name(), std::move(reason));
}

error actor::unanswered() const {
  if (!ends_for_) return error{errc::cancelled, "the request was cancelled before it was answered"};
  return error{errc::unavailable, name() + (failed_ ? " failed" : " was restarted") +
                                      " before it answered: " + ends_for_->text};
}

void actor::finish_run() {
  ctx_.graph()->finished();
}

std::string dump_tasks(const actor& dumped) {
  return dumped.queue_.dump_tasks();
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

std::vector<long_wait> actor::long_waits(std::chrono::nanoseconds age) const {
  std::vector<long_wait> waits;
  asks_.add_waits(age, waits);
  streams_.add_waits(age, waits);
  const auto oldest = gate_ ? gate_->state().oldest(queue_.now()) : std::nullopt;
  if (oldest && oldest->age >= age && oldest->unanswered == 0)
    waits.push_back({name(),
                     "holds the lease of transaction " + std::to_string(oldest->id) +
                         " and has no request under way",
                     oldest->age});
  return waits;
}

void actor::begin_stop() {
  stopping_ = true;
  // From here on Resume and Abort are refused. A cut that still counts on this gate is not
  // published: its Resume finds nobody.
  if (gate_) gate_->leave_barrier();
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
    came.posted->run(this);
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
  case detail::parcel_kind::leave:
  case detail::parcel_kind::begin:
    return; // Of the mailbox, which has many lives.
  case detail::parcel_kind::stream_open:
  case detail::parcel_kind::stream_credit:
  case detail::parcel_kind::stream_items:
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
  if (stopping_)
    return refuse(errc::unavailable,
                  name() + (ctx_.is_supervised() ? " ends this life" : " is stopping"));
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
  case detail::reply_memory::verdict::settled:
    detail::send_refusal(ctx_.self(), name(), asked, errc::conflict,
                         "transaction " + std::to_string(asked.lease.transaction) + " of " +
                             *asked.lease.origin + " is settled: this is a late duplicate");
    return false;
  }
  return false;
}

} // namespace weir
