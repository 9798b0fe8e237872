/// Strong identifiers. One-member structs with an explicit constructor and no implicit arithmetic:
/// a version is never passed where a step is meant.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace weir {

namespace detail {

/// An ordinal of one kind. `next()` is the only arithmetic that every kind shares.
template <class Tag>
struct ordinal {
  std::uint64_t value = 0;

  constexpr ordinal() = default;
  constexpr explicit ordinal(std::uint64_t number) : value(number) {}
  [[nodiscard]] constexpr ordinal next() const { return ordinal(value + 1); }
  friend constexpr auto operator<=>(ordinal, ordinal) = default;
};

} // namespace detail

/// The ordinal at which a prompt was handed out; the same after a restart.
using group_id = detail::ordinal<struct group_id_tag>;
/// +1 per optimizer step that is published.
using weight_version = detail::ordinal<struct weight_version_tag>;
/// One life of the run between a restore and the next.
using incarnation = detail::ordinal<struct incarnation_tag>;
/// Position in an owner's own history; each event of an owner has the next one.
using sequence_number = detail::ordinal<struct sequence_number_tag>;
/// A row of the data plane; never reused within a run.
using row_id = detail::ordinal<struct row_id_tag>;

/// One dataset record as it was visited: the position is within the shuffled epoch.
struct sample_id {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;

  friend constexpr auto operator<=>(sample_id, sample_id) = default;
};

/// Names one barrier: (incarnation, life of the checkpoint actor, n), strictly increasing.
struct epoch_id {
  std::uint64_t incarnation = 0;
  std::uint64_t life = 0;
  std::uint64_t number = 0;

  friend constexpr auto operator<=>(epoch_id, epoch_id) = default;
};

/// "3.1.7", as it stands in directory names and logs.
[[nodiscard]] inline std::string to_string(epoch_id epoch) {
  return std::to_string(epoch.incarnation) + "." + std::to_string(epoch.life) + "." +
         std::to_string(epoch.number);
}

} // namespace weir

template <class Tag>
struct std::hash<weir::detail::ordinal<Tag>> {
  std::size_t operator()(weir::detail::ordinal<Tag> id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};
