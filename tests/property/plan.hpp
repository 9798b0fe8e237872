/// Random trees of coroutines, as data: what each node of a tree does, read from a list of numbers.
///
/// Every list of numbers is a tree, and a shorter list or smaller numbers give a smaller one, so
/// that rapidcheck shrinks a failure to a few nodes. A list that has ended reads as zeros: a node
/// that is done at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::test {

using choices = std::vector<std::uint16_t>;

/// Reads a list of numbers.
class chooser {
public:
  explicit chooser(const choices& from) noexcept : from_(from) {}
  /// In [0, bound); 0 once the list has ended.
  [[nodiscard]] unsigned below(unsigned bound) noexcept {
    return at_ < from_.size() ? from_[at_++] % bound : 0;
  }
  [[nodiscard]] bool ended() const noexcept { return at_ >= from_.size(); }

private:
  const choices& from_;
  std::size_t at_ = 0;
};

enum class deed : std::uint8_t {
  // Leaves.
  done,      ///< Ends at once.
  pause,     ///< Sleeps `amount`.
  give_way,  ///< Yields.
  await,     ///< Waits for a signal.
  push,      ///< Into the channel.
  take,      ///< Out of the channel.
  mutate,    ///< Enters the gate, holds the lease for `amount`.
  hand_over, ///< Enters the gate, and a child gets the lease.
  blow_up,   ///< An exception of a library.
  work,      ///< Blocking work on the pool.
  listen,    ///< Reads a stream of `amount` items of another actor, half of it or to its end.
  refuse,    ///< An error as the answer.
  // Nodes with children.
  call,   ///< One after the other.
  join,   ///< Children of a scope; waits for all.
  leave,  ///< Children of a scope; leaves them after `amount`.
  all,    ///< when_all
  first,  ///< first_of
  limit,  ///< with_deadline, of `amount`.
  shield, ///< shielded
  ask,    ///< Another actor grows the child.
};
[[nodiscard]] const char* to_string(deed what) noexcept;

struct plan {
  deed what = deed::done;
  unsigned amount = 0; ///< Of the units that the one who runs it says.
  int id = 0;          ///< Unique in its tree.
  std::vector<plan> children = {};
};

/// Which deeds a tree may hold besides `done`.
struct palette {
  std::vector<deed> leaves;
  std::vector<deed> nodes;
};

/// Reads one tree of at most `depth` levels.
[[nodiscard]] plan read_plan(chooser& from, const palette& of, int depth, int& next_id);
/// "all(limit 3 (pause 7), done)".
[[nodiscard]] std::string to_string(const plan& tree);

} // namespace weir::test
