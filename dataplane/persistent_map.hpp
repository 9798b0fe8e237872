/// An ordered map from 64-bit keys whose copy costs O(1): the index that a barrier can capture.
///
/// A radix tree, 32 slots a node, with levels that hold a single child left out, so that dense keys
/// (row ids, group ordinals) and sparse ones are both shallow. A copy of the map shares the root.
/// A mutation copies a node on its path only while somebody else shares it; a map that nobody else
/// holds is changed in place. So after a capture each touched node is copied once, and the capture
/// itself neither walks nor copies anything.
///
/// Threads: one map object belongs to one thread at a time, but copies of it are independent. The
/// owner may go on mutating its map while another thread reads, copies or drops a copy. Why this
/// holds: a node that two maps reach has a count of at least two somewhere on each path, mutation
/// copies from the root down, and a copied parent adds a reference to each child. A count of one is
/// read with acquire, which pairs with the release of the reader that gave its reference up, so
/// that everything this reader still read happens before the owner writes.
///
/// Invariants: no node is empty; an inner node has at least two children; packed slots stand in
/// key order; every key below a node agrees with it above the node's own bits.
#pragma once

#include "messages/error.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::dataplane {

namespace detail {

inline constexpr unsigned radix_bits = 5;
inline constexpr unsigned radix_slots = 1U << radix_bits;

template <class Value>
struct radix_node;

/// Counted reference to a node; the count lives in the node.
template <class Value>
class radix_ref {
public:
  radix_ref() = default;
  explicit radix_ref(radix_node<Value>* owned) : node_(owned) {}
  radix_ref(const radix_ref& other) : node_(other.node_) {
    // Relaxed: whoever copies holds a reference already, so the node cannot vanish meanwhile.
    if (node_ != nullptr) node_->references.fetch_add(1, std::memory_order_relaxed);
  }
  radix_ref(radix_ref&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  radix_ref& operator=(radix_ref other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~radix_ref() {
    if (node_ != nullptr && node_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete node_;
  }

  explicit operator bool() const { return node_ != nullptr; }
  radix_node<Value>& operator*() const { return *node_; }
  radix_node<Value>* operator->() const { return node_; }
  /// Whether this reference is the only one, which then nobody else can copy.
  [[nodiscard]] bool unique() const {
    return node_->references.load(std::memory_order_acquire) == 1;
  }

private:
  radix_node<Value>* node_ = nullptr;
};

/// A leaf (shift 0) holds values, an inner node children; both packed, `occupied` says which slots.
template <class Value>
struct radix_node {
  radix_node(unsigned level_shift, std::uint64_t key)
      : shift(static_cast<std::uint8_t>(level_shift)), prefix(prefix_of(key, level_shift)) {}
  radix_node(const radix_node& other)
      : occupied(other.occupied), shift(other.shift), prefix(other.prefix),
        children(other.children), values(other.values) {}
  radix_node& operator=(const radix_node&) = delete;

  /// The bits of `key` above those that select a slot at `shift`.
  static std::uint64_t prefix_of(std::uint64_t key, unsigned shift) {
    return (key >> shift) >> radix_bits;
  }
  [[nodiscard]] unsigned slot_of(std::uint64_t key) const {
    return static_cast<unsigned>(key >> shift) & (radix_slots - 1);
  }
  [[nodiscard]] bool covers(std::uint64_t key) const { return prefix_of(key, shift) == prefix; }
  [[nodiscard]] bool holds(unsigned slot) const { return ((occupied >> slot) & 1U) != 0; }
  /// Position of `slot` among the packed ones.
  [[nodiscard]] std::size_t rank(unsigned slot) const {
    return static_cast<std::size_t>(std::popcount(occupied & ((1U << slot) - 1U)));
  }
  [[nodiscard]] std::uint64_t first_key() const { return (prefix << radix_bits) << shift; }
  [[nodiscard]] std::uint64_t last_key() const {
    const unsigned bits = shift + radix_bits;
    return bits >= 64 ? ~std::uint64_t{0} : first_key() | ((std::uint64_t{1} << bits) - 1);
  }
  [[nodiscard]] bool leaf() const { return shift == 0; }

  std::atomic<std::uint32_t> references{1};
  std::uint32_t occupied = 0;
  std::uint8_t shift;
  std::uint64_t prefix;
  std::vector<radix_ref<Value>> children;
  std::vector<Value> values;
};

} // namespace detail

/// See the head of this file. `Value` is copied when a shared leaf is copied: keep it small, or
/// hold it by `std::shared_ptr<const T>`. Pointers to values last until the next mutation.
template <class Value>
class persistent_map {
public:
  persistent_map() = default;
  /// O(1): shares everything. The copy may be handed to another thread.
  persistent_map(const persistent_map&) = default;
  persistent_map& operator=(const persistent_map&) = default;
  persistent_map(persistent_map&& other) noexcept
      : root_(std::move(other.root_)), size_(std::exchange(other.size_, 0)) {}
  persistent_map& operator=(persistent_map&& other) noexcept {
    root_ = std::move(other.root_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~persistent_map() = default;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  /// Returns the value of `key`, or null.
  [[nodiscard]] const Value* find(std::uint64_t key) const {
    const link* at = &root_;
    while (*at && (*at)->covers(key)) {
      const node& current = **at;
      const unsigned slot = current.slot_of(key);
      if (!current.holds(slot)) return nullptr;
      if (current.leaf()) return &current.values[current.rank(slot)];
      at = &current.children[current.rank(slot)];
    }
    return nullptr;
  }
  [[nodiscard]] bool contains(std::uint64_t key) const { return find(key) != nullptr; }

  /// Returns the value of `key` to be changed in place, or null. Copies shared nodes on its path.
  [[nodiscard]] Value* mutate(std::uint64_t key) {
    if (!contains(key)) return nullptr; // A miss copies nothing.
    link* at = &root_;
    for (;;) {
      node& current = unshared(*at);
      const std::size_t position = current.rank(current.slot_of(key));
      if (current.leaf()) return &current.values[position];
      at = &current.children[position];
    }
  }

  /// Adds `key`. Returns false, and changes nothing, if it is there already.
  bool insert(std::uint64_t key, Value value) {
    if (contains(key)) return false;
    add(key, std::move(value));
    return true;
  }

  /// Adds or replaces. Returns whether `key` is new.
  bool insert_or_assign(std::uint64_t key, Value value) {
    if (Value* present = mutate(key)) {
      *present = std::move(value);
      return false;
    }
    add(key, std::move(value));
    return true;
  }

  /// Removes `key`. Returns whether it was there.
  bool erase(std::uint64_t key) {
    if (!contains(key)) return false;
    link* parent = nullptr;
    link* at = &root_;
    while (!unshared(*at).leaf()) {
      parent = at;
      at = &(*at)->children[(*at)->rank((*at)->slot_of(key))];
    }
    node& leaf = **at;
    take_out(leaf, leaf.values, leaf.slot_of(key));
    if (leaf.occupied == 0) drop_leaf(parent, key);
    --size_;
    return true;
  }

  void clear() { *this = persistent_map(); }

  /// Calls `visit(key, value)` in key order. A visitor that returns bool stops by returning false.
  /// The visitor must not mutate this very map (a copy of it is free to take).
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for_each_from(0, visit);
  }

  /// The same for the keys from `first` on.
  template <class Visitor>
  void for_each_from(std::uint64_t first, Visitor&& visit) const {
    if (root_) walk(*root_, first, visit);
  }

  /// Smallest key that is at least `key`.
  [[nodiscard]] std::optional<std::uint64_t> lower_bound(std::uint64_t key) const {
    std::optional<std::uint64_t> found;
    for_each_from(key, [&found](std::uint64_t at, const Value&) {
      found = at;
      return false;
    });
    return found;
  }

  /// Largest key.
  [[nodiscard]] std::optional<std::uint64_t> last_key() const {
    if (!root_) return std::nullopt;
    const link* at = &root_;
    while (!(*at)->leaf())
      at = &(*at)->children.back();
    return (*at)->first_key() + static_cast<std::uint64_t>(std::bit_width((*at)->occupied) - 1);
  }

  /// Aborts if the tree breaks an invariant named at the head of this file. O(size).
  void check_invariants() const {
    const std::size_t counted = root_ ? check(*root_) : 0;
    ensure(counted == size_, "the persistent map holds as many values as it says");
  }

private:
  using node = detail::radix_node<Value>;
  using link = detail::radix_ref<Value>;

  static node& unshared(link& at) {
    if (!at.unique()) at = link(new node(*at));
    return *at;
  }

  template <class Slots, class Item>
  static void put_in(node& target, Slots& slots, unsigned slot, Item&& item) {
    const auto position = static_cast<std::ptrdiff_t>(target.rank(slot));
    slots.insert(slots.begin() + position, std::forward<Item>(item));
    target.occupied |= 1U << slot;
  }

  template <class Slots>
  static void take_out(node& target, Slots& slots, unsigned slot) {
    slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(target.rank(slot)));
    target.occupied &= ~(1U << slot);
  }

  /// @pre `key` is absent.
  void add(std::uint64_t key, Value value) {
    if (!root_) root_ = link(new node(0, key));
    link* at = &root_;
    for (;;) {
      if (!(*at)->covers(key)) put_parent(*at, key);
      node& current = unshared(*at);
      const unsigned slot = current.slot_of(key);
      if (current.leaf()) {
        put_in(current, current.values, slot, std::move(value));
        ++size_;
        return;
      }
      if (!current.holds(slot)) put_in(current, current.children, slot, link(new node(0, key)));
      at = &current.children[current.rank(slot)];
    }
  }

  /// Puts above `at` the lowest node that covers both what is there and `key`.
  static void put_parent(link& at, std::uint64_t key) {
    const std::uint64_t sibling_key = at->first_key();
    unsigned shift = at->shift + detail::radix_bits;
    while (node::prefix_of(key, shift) != node::prefix_of(sibling_key, shift))
      shift += detail::radix_bits;
    link parent(new node(shift, key));
    const unsigned slot = parent->slot_of(sibling_key);
    put_in(*parent, parent->children, slot, std::move(at));
    at = std::move(parent);
  }

  /// Removes the emptied leaf of `key`, and its parent if that has one child left.
  void drop_leaf(link* parent, std::uint64_t key) {
    if (parent == nullptr) {
      root_ = link();
      return;
    }
    node& above = **parent;
    take_out(above, above.children, above.slot_of(key));
    if (above.children.size() > 1) return;
    link survivor = std::move(above.children.front());
    *parent = std::move(survivor);
  }

  template <class Visitor>
  static bool walk(const node& at, std::uint64_t first, Visitor& visit) {
    if (at.last_key() < first) return true;
    std::size_t position = 0;
    for (std::uint32_t left = at.occupied; left != 0; left &= left - 1, ++position) {
      if (!at.leaf()) {
        if (!walk(*at.children[position], first, visit)) return false;
        continue;
      }
      const std::uint64_t key = at.first_key() + static_cast<std::uint64_t>(std::countr_zero(left));
      if (key >= first && !proceed(visit, key, at.values[position])) return false;
    }
    return true;
  }

  template <class Visitor>
  static bool proceed(Visitor& visit, std::uint64_t key, const Value& value) {
    if constexpr (std::is_same_v<std::invoke_result_t<Visitor&, std::uint64_t, const Value&>, bool>)
      return visit(key, value);
    else
      visit(key, value);
    return true;
  }

  static std::size_t check(const node& at) {
    const auto slots = static_cast<std::size_t>(std::popcount(at.occupied));
    ensure(at.leaf() ? slots >= 1 : slots >= 2, "no node of a persistent map is superfluous");
    ensure(at.values.size() == (at.leaf() ? slots : 0), "values stand in leaves, one a slot");
    ensure(at.children.size() == (at.leaf() ? 0 : slots), "inner nodes have one child a slot");
    std::size_t counted = at.values.size();
    for (const link& child : at.children) {
      ensure(child->shift < at.shift, "a child stands on a lower level than its parent");
      ensure(at.covers(child->first_key()), "a child agrees with its parent's prefix");
      counted += check(*child);
    }
    return counted;
  }

  link root_;
  std::size_t size_ = 0;
};

} // namespace weir::dataplane
