#include "actors/runtime/detail/relay.hpp"

#include "actors/runtime/detail/actor_access.hpp"

namespace weir::detail {

answer relay_awaiter::await_resume() {
  auto outcome = take_outcome();
  answer given;
  if (outcome)
    given.content = std::move(*outcome);
  else
    given.reason = std::make_shared<const error>(std::move(outcome.error()));
  return given;
}

deadline_after relay_actor::limit_of(const envelope& header) const {
  if (header.lease.present() || header.deadline_ns == 0) return unlimited;
  return within(std::chrono::nanoseconds(header.deadline_ns - clock().now()));
}

bool relay_actor::overdue(const envelope& header) const {
  return !header.lease.present() && header.deadline_ns != 0 && header.deadline_ns <= clock().now();
}

bool relay_actor::relay_frame(request_origin& asked, frame& request) {
  // The lease is the owner's business behind this relay: nothing is remembered here.
  asked.lease = lease_stamp();
  reply_guard answering(*this, std::move(asked));
  if (request.header.request_id == 0) answering.drop();
  children().spawn(&relay_actor::relay, this, std::move(answering), std::move(request));
  return true;
}

void relay_actor::pass_note(const address& to, frame note) const {
  parcel sent;
  sent.value = std::move(note);
  post(to, actor_access::context_of(*this).self(), std::move(sent));
}

void end_as_failure(const address& target, error reason) {
  parcel sent;
  sent.kind = parcel_kind::stop;
  sent.reason = std::make_shared<const error>(std::move(reason));
  post(target, address(), std::move(sent));
}

} // namespace weir::detail
