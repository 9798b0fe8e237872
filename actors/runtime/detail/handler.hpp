/// Handlers of messages as the dispatch sees them, and the guard that no request goes unanswered.
#pragma once

#include "actors/runtime/detail/reply_memory.hpp"
#include "actors/runtime/gate.hpp"
#include "actors/runtime/task.hpp"
#include "messages/message.hpp"

namespace weir {
class actor;
} // namespace weir

namespace weir::detail {

/// Who asked, and under which lease, if any.
struct request_origin {
  address to;
  std::uint64_t request_id = 0;
  message_type type;
  lease_stamp lease;
};

/// Sends the one answer to a request. Destroyed without it (its coroutine was cancelled), it
/// answers errc::cancelled, so that nobody waits for ever.
class reply_guard {
public:
  reply_guard(actor& answering, request_origin origin) noexcept
      : answering_(&answering), origin_(std::move(origin)) {}
  reply_guard(reply_guard&& other) noexcept
      : answering_(std::exchange(other.answering_, nullptr)), origin_(std::move(other.origin_)) {}
  reply_guard& operator=(reply_guard&&) = delete;
  ~reply_guard();

  template <class Reply>
  void reply(result<message<Reply>> given) {
    if (given)
      send({given->content(), nullptr});
    else
      refuse(std::move(given.error()));
  }
  /// Without origin and subject, they become the answering actor and the request.
  void refuse(error reason) noexcept;

  // For relays: what they answer was made by somebody else, or by nobody.
  void pass_on(answer given) noexcept { send(std::move(given)); }
  /// The same answer once more; one will still be sent.
  void repeat(const answer& given) noexcept;
  /// Nobody answers: whoever asked waits until the deadline.
  void drop() noexcept { answering_ = nullptr; }

private:
  void send(answer given) noexcept;

  actor* answering_;
  request_origin origin_;
};

class handler {
public:
  virtual ~handler() = default;
  /// The coroutine that handles one message. `content` has the handler's type.
  [[nodiscard]] virtual root_task start(actor& answering, request_origin origin,
                                        payload_ptr content) = 0;
  [[nodiscard]] message_type type() const noexcept { return type_; }
  [[nodiscard]] bool mutating() const noexcept { return mutating_; }

protected:
  handler(message_type type, bool mutating) noexcept : type_(type), mutating_(mutating) {}

private:
  message_type type_;
  bool mutating_;
};

template <class Self, class Reply, class Request>
class call_handler final : public handler {
public:
  using member = task<result<message<Reply>>> (Self::*)(message<Request>);

  call_handler(Self* self, member function) noexcept
      : handler(message_traits<Request>::type, false), self_(self), member_(function) {}
  root_task start(actor& answering, request_origin origin, payload_ptr content) override {
    return handle(self_, member_, message<Request>(std::move(content)),
                  reply_guard(answering, std::move(origin)));
  }

private:
  static root_task handle(Self* self, member function, message<Request> request,
                          reply_guard guard) {
    auto reply = co_await (self->*function)(std::move(request));
    guard.reply(std::move(reply));
  }

  Self* self_;
  member member_;
};

template <class Self, class Reply, class Request>
class leased_handler final : public handler {
public:
  using member = task<result<message<Reply>>> (Self::*)(lease_ref, message<Request>);

  leased_handler(Self* self, member function) noexcept
      : handler(message_traits<Request>::type, true), self_(self), member_(function) {}
  root_task start(actor& answering, request_origin origin, payload_ptr content) override {
    lease_ref lease(origin.lease);
    return handle(self_, member_, std::move(lease), message<Request>(std::move(content)),
                  reply_guard(answering, std::move(origin)));
  }

private:
  static root_task handle(Self* self, member function, lease_ref lease, message<Request> request,
                          reply_guard guard) {
    // The transaction of the one who asked waits for the answer.
    held_right under;
    run_queue::current()->hold(under, "the lease of the request", std::source_location());
    auto reply = co_await (self->*function)(std::move(lease), std::move(request));
    guard.reply(std::move(reply));
  }

  Self* self_;
  member member_;
};

template <class Self, class Note>
class note_handler final : public handler {
public:
  using member = task<void> (Self::*)(message<Note>);

  note_handler(Self* self, member function) noexcept
      : handler(message_traits<Note>::type, false), self_(self), member_(function) {}
  root_task start(actor&, request_origin, payload_ptr content) override {
    return handle(self_, member_, message<Note>(std::move(content)));
  }

private:
  static root_task handle(Self* self, member function, message<Note> note) {
    co_await (self->*function)(std::move(note));
  }

  Self* self_;
  member member_;
};

} // namespace weir::detail
