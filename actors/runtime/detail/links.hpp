/// Intrusive doubly linked lists whose nodes unlink themselves when they die.
///
/// Everything that can wait or be ready is a node in one of these: a destroyed coroutine frame
/// leaves every list it was in, so cancellation needs no search and no tombstones.
#pragma once

#include <cstddef>

namespace weir::detail {

/// One membership in one kind of list. `Tag` is how an object is in several at once. Its owner
/// unlinks it before it dies.
template <class Tag>
class bare_link {
public:
  bare_link() = default;
  bare_link(const bare_link&) = delete;
  bare_link& operator=(const bare_link&) = delete;

  [[nodiscard]] bool linked() const noexcept { return next_ != nullptr; }
  void unlink() noexcept {
    if (!linked()) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    previous_ = next_ = nullptr;
  }

private:
  template <class, class>
  friend class link_list;

  void insert_before(bare_link& position) noexcept {
    previous_ = position.previous_;
    next_ = &position;
    previous_->next_ = this;
    position.previous_ = this;
  }

  // Null, not itself: a coroutine's frame has several of these, and most are never linked.
  bare_link* previous_ = nullptr;
  bare_link* next_ = nullptr;
};

/// One that unlinks itself when it dies.
template <class Tag>
class link : public bare_link<Tag> {
public:
  ~link() { bare_link<Tag>::unlink(); }
};

/// A list of `Node`, which derives from `link<Tag>` or `bare_link<Tag>`. Owns nothing.
template <class Node, class Tag>
class link_list {
public:
  link_list() noexcept { head_.previous_ = head_.next_ = &head_; }
  link_list(const link_list&) = delete;
  link_list& operator=(const link_list&) = delete;
  ~link_list() = default;

  [[nodiscard]] bool empty() const noexcept { return head_.next_ == &head_; }
  /// @pre `node` is in no list of this kind: it saves looking
  void push_new(Node& node) noexcept { as_link(node).insert_before(head_); }
  void push_back(Node& node) noexcept {
    as_link(node).unlink();
    as_link(node).insert_before(head_);
  }
  void push_front(Node& node) noexcept {
    as_link(node).unlink();
    as_link(node).insert_before(*head_.next_);
  }
  /// Null when the list is empty.
  [[nodiscard]] Node* front() noexcept { return empty() ? nullptr : as_node(*head_.next_); }
  [[nodiscard]] Node* back() noexcept { return empty() ? nullptr : as_node(*head_.previous_); }
  /// Unlinks the first node and returns it; null when the list is empty.
  [[nodiscard]] Node* pop_front() noexcept {
    Node* node = front();
    if (node != nullptr) as_link(*node).unlink();
    return node;
  }
  /// Moves all nodes of `other` to the end of this list.
  void take_all(link_list& other) noexcept {
    while (Node* node = other.pop_front())
      push_back(*node);
  }
  /// Calls `visit(node)` in order; the list must not change meanwhile.
  template <class Visit>
  void each(Visit visit) const {
    for (bare_link<Tag>* at = head_.next_; at != &head_; at = at->next_)
      visit(*as_node(*at));
  }
  [[nodiscard]] std::size_t size() const {
    std::size_t count = 0;
    each([&count](const Node&) { ++count; });
    return count;
  }

private:
  static bare_link<Tag>& as_link(Node& node) noexcept { return node; }
  static Node* as_node(bare_link<Tag>& node) noexcept { return static_cast<Node*>(&node); }

  mutable link<Tag> head_;
};

} // namespace weir::detail
