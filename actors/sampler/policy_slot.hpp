/// The live groups of the buffer, as a policy sees them: one column per property, all of them in
/// dispatch order.
///
/// A policy looks at one or two properties of ten thousand groups and at everything of a few, so
/// columns are what a scan wants; `view[i]` puts one group together again. Header only: a sampler
/// in a shared object needs nothing else of the library.
#pragma once

#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>

namespace weir {

/// One live group of the buffer.
struct policy_slot {
  group_id group = {};
  std::int64_t dispatch_index = -1;
  /// -1 without stamps.
  std::int64_t target_step = -1;
  weight_version admission_version = {};
  /// W in force at admission.
  std::uint64_t window = 0;
  /// Version of the first kept token; unset while nothing is kept, and then never stale.
  std::optional<weight_version> start_version = {};
  bool ready = false;

  friend bool operator==(const policy_slot&, const policy_slot&) = default;
};

/// Stands in columns of versions for "unset": later than any version.
inline constexpr weight_version unset_version{std::numeric_limits<std::uint64_t>::max()};

/// Slots 0 ... size - 1, in dispatch order. Borrowed: valid while the buffer does not change.
struct slot_view {
  std::size_t size = 0;
  const group_id* group = nullptr;
  const std::int64_t* dispatch_index = nullptr;
  const std::int64_t* target_step = nullptr;
  const weight_version* admission_version = nullptr;
  const std::uint64_t* window = nullptr;
  /// `unset_version` while nothing is kept.
  const weight_version* start_version = nullptr;
  /// Start version + W, the last version that has the slot in its window; `unset_version` likewise.
  const weight_version* last_version = nullptr;
  /// 0 or 1.
  const std::uint8_t* ready = nullptr;

  [[nodiscard]] policy_slot operator[](std::size_t at) const {
    policy_slot slot{.group = group[at],
                     .dispatch_index = dispatch_index[at],
                     .target_step = target_step[at],
                     .admission_version = admission_version[at],
                     .window = window[at],
                     .start_version = start_version[at],
                     .ready = ready[at] != 0};
    if (start_version[at] == unset_version) slot.start_version.reset();
    return slot;
  }
  /// Whether generation of slot `at` began before the window of a step at `version`.
  [[nodiscard]] bool outside_window(std::size_t at, weight_version version) const {
    return last_version[at] < version;
  }
  /// The first `count` slots.
  [[nodiscard]] slot_view first(std::size_t count) const {
    slot_view part = *this;
    part.size = count;
    return part;
  }

  /// For range-for: each step puts one slot together.
  class iterator {
  public:
    using value_type = policy_slot;
    using difference_type = std::ptrdiff_t;
    iterator() = default;
    iterator(const slot_view& slots, std::size_t at) : slots_(&slots), at_(at) {}
    [[nodiscard]] policy_slot operator*() const { return (*slots_)[at_]; }
    iterator& operator++() {
      ++at_;
      return *this;
    }
    iterator operator++(int) {
      iterator before = *this;
      ++at_;
      return before;
    }
    friend bool operator==(const iterator&, const iterator&) = default;

  private:
    const slot_view* slots_ = nullptr;
    std::size_t at_ = 0;
  };
  [[nodiscard]] iterator begin() const { return {*this, 0}; }
  [[nodiscard]] iterator end() const { return {*this, size}; }
};
static_assert(std::input_iterator<slot_view::iterator>);

} // namespace weir
