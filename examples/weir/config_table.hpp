/// One table says everything about every key: where its value lives, its range, its meaning, and
/// whether it may change when a run is resumed. Defaults, `weir check`, error messages and
/// CONFIG.md are made from it.
#pragma once

#include "examples/weir/config.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace weir {

/// Access to one member of run_config.
template <class T>
struct config_field {
  T& (*write)(run_config&);
  const T& (*read)(const run_config&);
};

/// Access to an enumeration, by the index of its name.
struct choice_field {
  void (*write)(run_config&, std::size_t);
  std::size_t (*read)(const run_config&);
  std::span<const std::string_view> names;
};

using any_field =
    std::variant<config_field<bool>, config_field<std::uint64_t>, config_field<double>,
                 config_field<std::string>, config_field<std::optional<std::uint64_t>>,
                 config_field<std::optional<double>>, config_field<std::optional<std::string>>,
                 config_field<std::vector<std::string>>, choice_field>;

/// What a resumed run allows.
enum class on_resume : std::uint8_t {
  may_change, ///< Takes effect from the restored bundle on.
  must_match, ///< Another value would belong to another run: refused.
};

/// How a text is meant.
enum class text_role : std::uint8_t {
  plain,
  path,  ///< A file or directory; a relative one is resolved.
  bytes, ///< A number of bytes; "64 MiB" is understood.
  /// A command or a shared object: its first word is resolved if it has a slash, others after ./
  program,
  named, ///< A word, or a path: resolved unless it is the default.
};

inline constexpr double unbounded = std::numeric_limits<double>::infinity();

/// The numbers that are allowed.
struct number_range {
  double low = -unbounded;
  double high = unbounded;
  bool above_low = false;  ///< `low` itself is not allowed.
  bool below_high = false; ///< `high` itself is not allowed.
};

struct config_key {
  std::string_view path;
  any_field field;
  number_range range = {};
  on_resume resume = on_resume::may_change;
  std::string_view meaning;
  text_role role = text_role::plain;
  /// Printed instead of the default where the default follows other keys.
  std::string_view default_text = {};
};

/// A name that other systems or earlier versions use, and ours.
struct renamed_key {
  std::string_view old_path;
  std::string_view path;
};

/// A key or a block of another system's that has no counterpart here, and what to do.
struct foreign_block {
  std::string_view path;
  std::string_view instead;
};

/// Every key, block by block, in the order in which they are printed.
[[nodiscard]] std::span<const config_key> config_keys();
[[nodiscard]] std::span<const renamed_key> renamed_keys();
[[nodiscard]] std::span<const foreign_block> foreign_blocks();
/// The key with this path, or null.
[[nodiscard]] const config_key* find_key(std::string_view path);

namespace detail {

template <auto First, auto... Rest, class Owner>
constexpr auto& reach(Owner& owner) {
  if constexpr (sizeof...(Rest) == 0)
    return owner.*First;
  else
    return reach<Rest...>(owner.*First);
}

/// Names of an enumeration's values, in their order.
template <class Enum>
struct choices;
template <>
struct choices<device_kind> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "cpu", "cuda"};
};
template <>
struct choices<env_kind> {
  static constexpr std::array<std::string_view, 2> names = {"exact_answer", "command"};
};
template <>
struct choices<sampler_kind> {
  static constexpr std::array<std::string_view, 5> names = {"in_order", "weight_fifo",
                                                            "ready_first", "windowed", "custom"};
};
template <>
struct choices<weight_update_kind> {
  static constexpr std::array<std::string_view, 2> names = {"in_flight", "pinned"};
};
template <>
struct choices<dropped_prompt_action> {
  static constexpr std::array<std::string_view, 2> names = {"shrink", "replace"};
};
template <>
struct choices<stall_action_kind> {
  static constexpr std::array<std::string_view, 2> names = {"abort", "warn"};
};
template <>
struct choices<data_plane_backend> {
  static constexpr std::array<std::string_view, 1> names = {"simple"};
};
template <>
struct choices<recovery_level> {
  static constexpr std::array<std::string_view, 1> names = {"group"};
};
template <>
struct choices<checkpoint_disk> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "posix", "io_uring"};
};
template <>
struct choices<logger_level> {
  static constexpr std::array<std::string_view, 5> names = {"trace", "debug", "info", "warning",
                                                            "error"};
};

} // namespace detail

/// The member that a chain of member pointers leads to, for example
/// `at<&run_config::grpo, &grpo_config::seed>()`.
template <auto... Members>
constexpr any_field at() {
  using value =
      std::remove_cvref_t<decltype(detail::reach<Members...>(std::declval<run_config&>()))>;
  if constexpr (std::is_enum_v<value>)
    return choice_field{.write =
                            [](run_config& config, std::size_t index) {
                              detail::reach<Members...>(config) = static_cast<value>(index);
                            },
                        .read =
                            [](const run_config& config) {
                              return static_cast<std::size_t>(detail::reach<Members...>(config));
                            },
                        .names = detail::choices<value>::names};
  else
    return config_field<value>{
        .write = [](run_config& config) -> value& { return detail::reach<Members...>(config); },
        .read = [](const run_config& config) -> const value& {
          return detail::reach<Members...>(config);
        }};
}

} // namespace weir
