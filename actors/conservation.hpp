/// The conservation law: every prompt that was handed out is somewhere, exactly once.
///
/// A tally is a count and a sum of 128-bit hashes of ordinals modulo 2^128. Sums commute, so that
/// owners add groups in any order and tallies of several owners are compared by `==`. The count
/// alone would hide one group lost plus one doubled; the sum shows it, except with a probability
/// of about 2^-128.
///
/// The hash is part of the bundle format: totals in old bundles are compared with new ones.
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <string>

namespace weir {

/// A multiset of group ids, reduced to what the conservation law needs.
struct group_tally {
  std::uint64_t count = 0;
  std::uint64_t sum_low = 0;
  std::uint64_t sum_high = 0;

  /// Counts one more group.
  constexpr void add(group_id group);
  /// Takes one group out. @pre The tally holds at least one group.
  constexpr void remove(group_id group);

  constexpr group_tally& operator+=(const group_tally& other);
  /// @pre `other` was added to this tally before.
  constexpr group_tally& operator-=(const group_tally& other);

  friend constexpr bool operator==(const group_tally&, const group_tally&) = default;
  friend constexpr group_tally operator+(group_tally left, const group_tally& right) {
    return left += right;
  }
  friend constexpr group_tally operator-(group_tally left, const group_tally& right) {
    return left -= right;
  }
};

namespace detail {

/// The finalizer of splitmix64: a bijection of 64-bit words.
constexpr std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31U);
}

} // namespace detail

/// The tally of one group: two independent words of its ordinal, never both zero.
[[nodiscard]] constexpr group_tally tally_of(group_id group) {
  const std::uint64_t low = detail::mixed(group.value + 0x9e3779b97f4a7c15ULL);
  const std::uint64_t high = detail::mixed(low ^ (group.value * 0xd1342543de82ef95ULL + 1));
  return {.count = 1, .sum_low = low, .sum_high = high};
}

/// The tally of the ordinals first, first + 1, ... first + count - 1.
[[nodiscard]] constexpr group_tally tally_of_range(group_id first, std::uint64_t count) {
  group_tally total;
  for (std::uint64_t index = 0; index < count; ++index)
    total.add(group_id(first.value + index));
  return total;
}

/// "32 groups (sum 0123456789abcdef0123456789abcdef)", for errors that print both sides.
[[nodiscard]] inline std::string to_string(const group_tally& tally) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text = std::to_string(tally.count) + " groups (sum ";
  for (const std::uint64_t word : {tally.sum_high, tally.sum_low})
    for (unsigned nibble = 16; nibble-- > 0;)
      text += digits[(word >> (nibble * 4)) & 15U];
  return text + ")";
}

constexpr void group_tally::add(group_id group) {
  *this += tally_of(group);
}

constexpr void group_tally::remove(group_id group) {
  *this -= tally_of(group);
}

constexpr group_tally& group_tally::operator+=(const group_tally& other) {
  const std::uint64_t low_before = sum_low;
  count += other.count;
  sum_low += other.sum_low;
  sum_high += other.sum_high + (sum_low < low_before ? 1 : 0);
  return *this;
}

constexpr group_tally& group_tally::operator-=(const group_tally& other) {
  if (other.count > count) ensure(false, "a tally gives back only groups that it counted");
  const std::uint64_t borrow = sum_low < other.sum_low ? 1 : 0;
  count -= other.count;
  sum_low -= other.sum_low;
  sum_high -= other.sum_high + borrow;
  return *this;
}

} // namespace weir
