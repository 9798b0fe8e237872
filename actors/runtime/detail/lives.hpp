/// The lives of the actor behind one mailbox.
///
/// Without a supervisor there is one life, and the mailbox ends with it. A supervised actor that
/// fails, or that its supervisor tells to leave, is destroyed, and the mailbox stays: handles are
/// valid, and a new body begins when the supervisor says so. Between two lives nothing is queued:
/// requests are refused at once, and the peers of streams learn that nobody is there.
#pragma once

#include "actors/runtime/actor.hpp"
#include "actors/runtime/detail/actor_access.hpp"

#include <functional>
#include <memory>

namespace weir::detail {

/// Makes the body of one more life, on the actor's turn.
using body_factory = std::function<std::unique_ptr<actor>()>;

/// Answers what nobody will read: a request is refused with `reason`, a stream is cancelled.
void refuse_unread(const address& from, const parcel& unread, error reason);

/// Used on the turns of its mailbox only.
class lives {
public:
  explicit lives(run_queue& queue) noexcept : queue_(queue) {}
  lives(const lives&) = delete;
  lives& operator=(const lives&) = delete;
  ~lives() = default;

  /// `next` is empty for an actor that lives once.
  void begin(std::unique_ptr<actor> first, body_factory next);
  /// The first turn.
  void start() { actor_access::start(*body_); }
  void receive(const address& from, parcel& came);
  /// Between two resumptions: ends a life that has come to its end. True when no other follows.
  [[nodiscard]] bool over() {
    if (body_ != nullptr && !actor_access::ends(*body_)) return false;
    return settle();
  }
  /// Destroys the body, whatever it is at, and whatever could make another.
  void end() noexcept;

  /// From `begin` to `end`.
  [[nodiscard]] bool begun() const noexcept { return ctx_.has_value(); }
  /// Null between two lives.
  [[nodiscard]] actor* body() const noexcept { return body_.get(); }
  /// @pre begun
  [[nodiscard]] const std::shared_ptr<graph_core>& graph() const noexcept { return ctx_->graph(); }

private:
  [[nodiscard]] bool settle();
  void vacate();
  void destroy_body() noexcept;
  void begin_next();
  void report(std::optional<error> failed) const;
  [[nodiscard]] error vacant() const;

  run_queue& queue_;
  std::optional<context> ctx_; ///< Of all its bodies.
  std::unique_ptr<actor> body_;
  body_factory next_;
  std::string ended_for_;
  bool stopped_ = false;     ///< For good.
  bool begin_asked_ = false; ///< While the last body still leaves.
};

} // namespace weir::detail
