/// Runs trees of coroutines on the real run queue, on a clock of its own, and watches every life.
///
/// It behaves as an actor does: a failure halts the queue, cancels the root scope and what is
/// shielded; else shielded work goes on after a cancel. What must hold is checked while it happens:
///   - a frame is destroyed once, after everything that it called or spawned (but not shielded);
///   - of coroutines that are cancelled together, the youngest goes first;
///   - a value reaches the one who awaited it, from the one who made it;
///   - a value that a channel took is read once, or is still there;
///   - nothing runs after a failure.
#pragma once

#include "actors/runtime/channel.hpp"
#include "actors/runtime/combinators.hpp"
#include "actors/runtime/gate.hpp"
#include "tests/property/plan.hpp"

#include <memory>
#include <set>

namespace weir::test {

class forest final : private run_queue_host {
public:
  forest();
  forest(const forest&) = delete;
  forest& operator=(const forest&) = delete;
  ~forest();

  /// A new tree among the roots; `tree` outlives the forest.
  void plant(const plan& tree);
  /// Resumes at most `resumptions` coroutines.
  void step(std::size_t resumptions);
  void advance(std::chrono::nanoseconds by);
  void raise() { signal_.raise(); }
  /// Cancels every root, as an actor that stops.
  void cut_down();
  /// The barrier closes the gate for at most `hold`, or gives up.
  void close_gate(std::chrono::nanoseconds hold);
  void open_gate();

  /// Cancels what is left, lets shielded work end, and looks at what remains. Gives every rule that
  /// was broken, one a line; empty: all is well.
  [[nodiscard]] std::string fell();

private:
  class life;
  struct record {
    std::size_t caller = 0;
    std::size_t open_children = 0;
    bool ended = false;
  };

  // One coroutine per deed. `self` is the life of the node.
  static task<int> grow(forest* of, const plan* node, std::size_t caller);
  static task<void> perform(forest* of, const plan* node, std::size_t self);
  static task<void> grow_and_check(forest* of, const plan* node, std::size_t caller);
  static task<void> pause(forest* of, unsigned amount);
  static task<void> push(forest* of);
  static task<void> take(forest* of);
  static task<void> mutate(forest* of, unsigned amount);
  static task<void> hand_over(forest* of, unsigned amount, std::size_t self);
  static task<void> hold(forest* of, lease given, unsigned amount, std::size_t caller);
  static task<void> call(forest* of, const plan* node, std::size_t self);
  static task<void> join(forest* of, const plan* node, std::size_t self);
  static task<void> leave(forest* of, const plan* node, std::size_t self);
  static task<void> all(forest* of, const plan* node, std::size_t self);
  static task<void> first(forest* of, const plan* node, std::size_t self);
  static task<void> limit(forest* of, const plan* node, std::size_t self);
  static task<void> shield(forest* of, const plan* node);

  [[nodiscard]] const std::string& host_name() const override { return name_; }
  [[nodiscard]] std::chrono::nanoseconds host_now() const override { return now_; }
  void host_failed(error reason) noexcept override;

  void expect(bool holds, std::string rule);
  void settle_failure();
  void check_channel();

  std::string name_ = "forest";
  std::chrono::nanoseconds now_{0};
  run_queue queue_;
  run_queue::turn turn_;
  std::vector<record> lives_;
  std::string broken_;
  signal signal_;
  channel<std::unique_ptr<int>> channel_{2};
  int next_value_ = 1;
  std::set<int> taken_; ///< By the channel: acknowledged pushes.
  std::set<int> read_;
  mutation_gate gate_;
  std::uint64_t next_epoch_ = 1;
  bool failed_ = false;
  scope shield_;
  scope root_;
};

} // namespace weir::test
