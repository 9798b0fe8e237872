#include "actors/runtime/detail/timer_heap.hpp"

#include "messages/error.hpp"

namespace weir::detail {

void timer_node::disarm() noexcept {
  if (heap_ != nullptr) heap_->remove(*this);
}

timer_heap::~timer_heap() {
  ensure(nodes_.empty(), "no deadline outlives its actor");
}

bool timer_heap::before(const timer_node& a, const timer_node& b) noexcept {
  return a.due_ != b.due_ ? a.due_ < b.due_ : a.order_ < b.order_;
}

void timer_heap::place(timer_node& node, std::size_t position) noexcept {
  nodes_[position] = &node;
  node.position_ = position;
}

void timer_heap::move_up(std::size_t position) noexcept {
  timer_node& moved = *nodes_[position];
  while (position > 0) {
    const std::size_t above = (position - 1) / 2;
    if (!before(moved, *nodes_[above])) break;
    place(*nodes_[above], position);
    position = above;
  }
  place(moved, position);
}

void timer_heap::move_down(std::size_t position) noexcept {
  timer_node& moved = *nodes_[position];
  for (;;) {
    std::size_t below = 2 * position + 1;
    if (below >= nodes_.size()) break;
    if (below + 1 < nodes_.size() && before(*nodes_[below + 1], *nodes_[below])) ++below;
    if (!before(*nodes_[below], moved)) break;
    place(*nodes_[below], position);
    position = below;
  }
  place(moved, position);
}

void timer_heap::arm(timer_node& node, std::chrono::nanoseconds due) {
  node.disarm();
  node.heap_ = this;
  node.due_ = due;
  node.order_ = armed_ever_++;
  nodes_.push_back(&node);
  move_up(nodes_.size() - 1);
}

void timer_heap::remove(timer_node& node) noexcept {
  const std::size_t position = node.position_;
  ensure(nodes_[position] == &node, "a deadline is where its heap put it");
  node.heap_ = nullptr;
  timer_node* last = nodes_.back();
  nodes_.pop_back();
  if (last == &node) return;
  place(*last, position);
  move_up(position);
  move_down(last->position_);
}

void timer_heap::expire(std::chrono::nanoseconds now) noexcept {
  while (!nodes_.empty() && nodes_.front()->due_ <= now) {
    timer_node& node = *nodes_.front();
    remove(node);
    node.expired();
  }
}

} // namespace weir::detail
