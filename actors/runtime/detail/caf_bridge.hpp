/// The threads and mailboxes below a graph, without a header of CAF.
#pragma once

#include "actors/runtime/detail/lives.hpp"

#include <cstddef>
#include <memory>

namespace weir::detail {

struct scheduler_options {
  /// Scheduler threads. Computation belongs on the blocking pool or on a device's stream.
  std::size_t workers = 2;
};

class simulated_scheduler;

/// One CAF actor system: its scheduler runs the turns of the actors that are attached to it, or a
/// simulated one does, on the thread that steps it.
class mailbox_system {
public:
  explicit mailbox_system(scheduler_options options, simulated_scheduler* schedule = nullptr);
  mailbox_system(const mailbox_system&) = delete;
  mailbox_system& operator=(const mailbox_system&) = delete;
  /// @pre every attached actor has ended
  ~mailbox_system();

  /// A mailbox that collects; nothing is read before `launch`.
  [[nodiscard]] address open_mailbox(shared_name name);
  /// Gives the mailbox its actor and begins its turns. `next` makes the bodies of further lives;
  /// empty for an actor that is not supervised.
  void launch(const address& where, std::unique_ptr<actor> first, body_factory next);
  /// Ends a mailbox that was never launched, on this thread, with its actor if it got one.
  void discard(const address& where, std::unique_ptr<actor> owner);
  /// Ends a mailbox at once, with an actor that may be in the middle of anything.
  /// @pre simulated; no turn is under way
  void kill(const address& where);

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace weir::detail
