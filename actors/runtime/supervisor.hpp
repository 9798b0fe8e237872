/// The supervisor of a group: an actor that restarts the others of the group in place.
///
/// Made by `graph::supervise`; nobody asks it anything. It is told of the end of each life and
/// decides by `supervision_state`; the waits of its backoff are its own, on the world's clock.
/// When the group gives up, the supervisor fails: it ends the lives of its members, and its own
/// supervisor begins the whole group anew, or the run ends with the history.
#pragma once

#include "actors/runtime/actor.hpp"
#include "actors/runtime/supervision_state.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir {

namespace detail {

class life_report;

/// A group while it is composed, and what all lives of its supervisor share.
struct group_members {
  std::string name;
  supervision_options options;
  address supervisor;
  std::vector<std::string> names;
  std::vector<address> where;
  bool begun = false; ///< The supervisor has lived before.
};

} // namespace detail

class supervisor final : public actor {
public:
  using protocol = weir::protocol<>;

  supervisor(context ctx, std::shared_ptr<detail::group_members> group);
  ~supervisor() override;

private:
  friend class detail::life_report;

  task<void> run() override;
  task<void> changed(std::uint64_t seen);
  void life_ended(std::size_t member, std::optional<error> failed);
  void perform(const supervision_state::decision& wanted, const std::string& why);
  void begin_due();
  void send_leave(std::size_t member, const std::string& why) const;
  [[nodiscard]] std::chrono::nanoseconds now() const;

  const std::shared_ptr<detail::group_members> group_;
  supervision_state state_;
  std::uint64_t changes_ = 0; ///< Of the state, by what it was told.
  signal changed_;
};

namespace detail {

/// Mailbox to supervisor: a life of a member has ended, by a failure or as it was told to.
class life_report final : public posted_call {
public:
  life_report(std::size_t member, std::optional<error> failed)
      : member_(member), failed_(std::move(failed)) {}
  void run(actor* body) noexcept override {
    if (body != nullptr) static_cast<supervisor*>(body)->life_ended(member_, std::move(failed_));
  }

private:
  std::size_t member_;
  std::optional<error> failed_;
};

} // namespace detail
} // namespace weir
