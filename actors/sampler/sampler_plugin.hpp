/// What a shared object exports, so that `async_rl.sampler.target: "libmine.so:my_sampler"` finds a
/// sampler in it. Header only: nothing of the library is linked.
///
///     class my_sampler_policy final : public weir::sampler_policy { ... };
///
///     std::shared_ptr<const weir::sampler_policy> make(const weir::sampler_arguments& given) {
///       return std::make_shared<const my_sampler_policy>(given.window);
///     }
///
///     extern "C" const weir::sampler_plugin my_sampler; // Exported under its plain name.
///     const weir::sampler_plugin my_sampler(&make);
#pragma once

#include "actors/sampler/sampler_policy.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace weir {

/// What the configuration says to a sampler of a user's own.
struct sampler_arguments {
  /// `async_rl.sampler.max_staleness_versions`.
  std::uint64_t window = 1;
  /// `grpo.num_prompts_per_step`: N.
  std::uint64_t groups_per_step = 1;
};

/// Raised when anything changes that both sides of a shared object must agree on: sampler_policy,
/// slot_view, policy_slot, selection, sampler_arguments, result.
inline constexpr std::uint32_t sampler_abi = 1;

/// The exported object. The first two members keep their places for ever.
class sampler_plugin {
public:
  using factory = std::shared_ptr<const sampler_policy> (*)(const sampler_arguments& given);

  constexpr explicit sampler_plugin(factory makes) : make_(makes) {}

  /// What every plugin begins with, whatever its ABI.
  static constexpr std::array<char, 8> mark = {'W', 'E', 'I', 'R', 'S', 'M', 'P', 'L'};
  [[nodiscard]] bool has_mark() const { return mark_ == mark; }
  [[nodiscard]] std::uint32_t abi() const { return abi_; }
  /// @pre `abi()` is `sampler_abi`.
  [[nodiscard]] factory make() const { return make_; }

private:
  std::array<char, 8> mark_ = mark;
  std::uint32_t abi_ = sampler_abi;
  factory make_;
};

} // namespace weir
