/// Deadlines of one actor: a binary heap of intrusive nodes, ordered by time, then by arming.
///
/// A node knows its place, so that cancelling (the common end of a deadline) costs O(log n) and a
/// destroyed node leaves the heap by itself. Time is the world's monotonic clock, in nanoseconds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::detail {

class timer_heap;

/// Something that happens at a time unless it is disarmed before. Called on the actor's turn.
class timer_node {
public:
  timer_node() = default;
  timer_node(const timer_node&) = delete;
  timer_node& operator=(const timer_node&) = delete;
  virtual ~timer_node() { disarm(); }

  [[nodiscard]] bool armed() const noexcept { return heap_ != nullptr; }
  [[nodiscard]] std::chrono::nanoseconds due() const noexcept { return due_; }
  void disarm() noexcept;

protected:
  /// The deadline passed; the node is disarmed already and may be destroyed by this call.
  virtual void expired() noexcept = 0;

private:
  friend class timer_heap;

  timer_heap* heap_ = nullptr;
  std::chrono::nanoseconds due_{0};
  std::uint64_t order_ = 0;
  std::size_t position_ = 0;
};

class timer_heap {
public:
  timer_heap() = default;
  timer_heap(const timer_heap&) = delete;
  timer_heap& operator=(const timer_heap&) = delete;
  ~timer_heap();

  void arm(timer_node& node, std::chrono::nanoseconds due);
  [[nodiscard]] bool empty() const noexcept { return nodes_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  /// @pre not empty
  [[nodiscard]] std::chrono::nanoseconds earliest() const noexcept { return nodes_.front()->due_; }
  /// Runs what is due at `now`, earliest first.
  void expire(std::chrono::nanoseconds now) noexcept;

private:
  friend class timer_node;

  static bool before(const timer_node& a, const timer_node& b) noexcept;
  void place(timer_node& node, std::size_t position) noexcept;
  void move_up(std::size_t position) noexcept;
  void move_down(std::size_t position) noexcept;
  void remove(timer_node& node) noexcept;

  std::vector<timer_node*> nodes_;
  std::uint64_t armed_ever_ = 0;
};

} // namespace weir::detail
