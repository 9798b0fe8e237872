#include "actors/runtime/detail/lives.hpp"

#include "actors/runtime/detail/task_dump.hpp"
#include "actors/runtime/supervisor.hpp"

#include <exception>
#include <utility>

namespace weir::detail {

void refuse_unread(const address& from, const parcel& unread, error reason) {
  if (!from) return;
  parcel answer;
  switch (unread.kind) {
  case parcel_kind::stream_open:
  case parcel_kind::stream_items:
    answer.kind = parcel_kind::stream_cancel;
    answer.source = unread.source;
    break;
  case parcel_kind::frame: {
    const envelope& header = unread.value.header;
    if (header.is_reply || header.request_id == 0) return;
    answer.kind = parcel_kind::refusal;
    answer.value.header.request_id = header.request_id;
    answer.value.header.is_reply = true;
    answer.reason = std::make_shared<const error>(std::move(reason));
    break;
  }
  default:
    return;
  }
  post(from, address(), std::move(answer));
}

void lives::begin(std::unique_ptr<actor> first, body_factory next) {
  ctx_ = actor_access::context_of(*first);
  body_ = std::move(first);
  next_ = std::move(next);
}

void lives::receive(const address& from, parcel& came) {
  switch (came.kind) {
  case parcel_kind::stop:
    stopped_ = stopped_ || came.reason == nullptr; // Otherwise it is a failure.
    break;
  case parcel_kind::leave:
    if (body_ != nullptr)
      actor_access::leave(*body_, *came.reason);
    else
      report(std::nullopt);
    return;
  case parcel_kind::begin:
    if (body_ == nullptr)
      begin_next();
    else
      begin_asked_ = actor_access::ends(*body_);
    return;
  default:
    break;
  }
  if (body_ != nullptr)
    actor_access::receive(*body_, from, came);
  else if (came.kind == parcel_kind::call)
    came.posted->run(nullptr);
  else
    refuse_unread(from, came, vacant());
}

void lives::destroy_body() noexcept {
  if (body_ != nullptr) actor_access::unwind(*body_);
  body_.reset();
  queue_.set_host(nullptr);
}

void lives::end() noexcept {
  destroy_body();
  next_ = nullptr; // It knows the group, and the group knows this mailbox.
  ctx_.reset();
}

error lives::vacant() const {
  return error{errc::unavailable, ctx_->name() + " is being restarted: " + ended_for_,
               ctx_->name()};
}

bool lives::settle() {
  if (body_ == nullptr) return stopped_;
  if (!actor_access::settle_stop(*body_)) return false;
  if (stopped_ || !ctx_->is_supervised()) return true;
  vacate();
  return false;
}

void lives::vacate() {
  const auto reason = actor_access::ends_for(*body_);
  const bool failed = actor_access::failed(*body_);
  ended_for_ = reason ? reason->text : std::string();
  destroy_body();
  report(failed ? reason : std::nullopt);
  if (begin_asked_) begin_next();
}

void lives::begin_next() {
  begin_asked_ = false;
  try {
    body_ = next_();
  } catch (...) {
    queue_.set_host(nullptr);
    error reason{errc::internal, exception_text(std::current_exception())};
    reason.text += "; thrown by its constructor";
    ended_for_ = reason.text;
    report(std::move(reason));
    return;
  }
  ctx_->env().log(log_level::info, ctx_->name(), "was restarted");
  actor_access::start(*body_);
}

void lives::report(std::optional<error> failed) const {
  parcel sent;
  sent.kind = parcel_kind::call;
  sent.posted = std::make_shared<life_report>(ctx_->supervision().member, std::move(failed));
  post(ctx_->supervision().supervisor, address(), std::move(sent));
}

} // namespace weir::detail
