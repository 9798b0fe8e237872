/// Which actors of a group are restarted, when, and when the group gives up: decisions only, no
/// clock, no actor. Times are nanoseconds of the world's clock.
///
/// A member is up, leaving (told to end its life because of another one) or down. Nobody is begun
/// while somebody is leaving, and those whose time has come begin in the order of addition: so the
/// actors of one_for_all and rest_for_one never meet a predecessor of one another.
#pragma once

#include "messages/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace weir {

/// Who is restarted when one actor of a group fails.
enum class restart : std::uint8_t {
  one_for_one,  ///< That one.
  one_for_all,  ///< All of the group.
  rest_for_one, ///< That one and those that were added after it.
};

struct supervision_options {
  restart how = restart::one_for_one;
  /// Failures of the group that are answered by a restart within any `period`; one more, and the
  /// group gives up.
  std::size_t restarts_max = 3;
  std::chrono::nanoseconds period = std::chrono::seconds(10);
  /// Between a failure and the restart; doubles with each failure of the same actor within
  /// `period`, up to `backoff_max`.
  std::chrono::nanoseconds backoff = std::chrono::milliseconds(100);
  std::chrono::nanoseconds backoff_max = std::chrono::seconds(5);
};

class supervision_state {
public:
  /// What a failure asks for: members to be told to leave, or the end of the group's patience.
  struct decision {
    std::vector<std::size_t> leave = {};
    std::optional<error> give_up = {};
  };

  supervision_state(std::string group, supervision_options options,
                    std::vector<std::string> members);

  /// A member has failed, and its life is over. What fails while it leaves is over all the same
  /// and costs no budget.
  [[nodiscard]] decision failed(std::size_t member, error reason, std::chrono::nanoseconds now);
  /// A member that was told to leave has done so.
  void left(std::size_t member);
  /// Everybody leaves and begins anew: the group itself was restarted.
  [[nodiscard]] decision renew(std::chrono::nanoseconds now);

  /// The members that begin now, in order of addition; they are up from here on.
  [[nodiscard]] std::vector<std::size_t> begin_due(std::chrono::nanoseconds now);
  /// When `begin_due` has to be asked next; empty while nobody waits for a time.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next_due() const;

private:
  enum class stage : std::uint8_t { up, leaving, down };
  struct supervised {
    std::string name;
    stage at = stage::up;
    std::chrono::nanoseconds due{0}; ///< Begins no earlier, once it is down.
  };
  struct failure_record {
    std::size_t member;
    std::chrono::nanoseconds at;
  };

  [[nodiscard]] bool anybody_leaving() const;
  [[nodiscard]] bool affected(std::size_t member, std::size_t by) const;
  [[nodiscard]] std::chrono::nanoseconds backoff_of(std::size_t member) const;
  [[nodiscard]] error exhausted(std::size_t member, error reason) const;

  const std::string group_;
  const supervision_options options_;
  std::vector<supervised> members_;
  std::deque<failure_record> recent_; ///< Within one period, oldest first.
};

} // namespace weir
