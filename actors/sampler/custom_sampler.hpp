/// Samplers of a user's own: by name, from the driver program, or out of a shared object.
///
/// Whatever they are from, they come wrapped by `checked`. A program that uses the library passes
/// its policy to `checked` itself.
#pragma once

#include "actors/sampler/sampler_plugin.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weir {

using sampler_factory =
    std::function<std::shared_ptr<const sampler_policy>(const sampler_arguments& given)>;

/// The samplers that a driver program has linked in, by name.
class sampler_registry {
public:
  /// @pre The name is plain and not taken: a program that adds one twice is wrong.
  void add(const std::string& name, sampler_factory make);
  /// Nothing if there is none of that name.
  [[nodiscard]] const sampler_factory* find(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;

private:
  std::map<std::string, sampler_factory> factories_;
};

/// `async_rl.sampler.target`, taken apart.
struct sampler_target {
  /// Path of a shared object; empty: the symbol is a registered name.
  std::string library = {};
  std::string symbol = {};

  friend bool operator==(const sampler_target&, const sampler_target&) = default;
};

/// "libmine.so:my_sampler", or "my_sampler". Errors: invalid_argument when a part is empty.
[[nodiscard]] result<sampler_target> parse_sampler_target(const std::string& target);

/// The sampler that `target` names, checked. A shared object stays loaded for as long as anybody
/// holds the policy. Relative paths are those of the dynamic loader: with a '/', of the working
/// directory. Errors: not_found for an unregistered name (with those that there are), a missing
/// file or symbol; invalid_argument for a symbol of another type, a factory that throws or makes
/// nothing, and what `checked` refuses; unsupported for another ABI. All of them name the target.
[[nodiscard]] result<std::shared_ptr<const sampler_policy>>
make_custom_sampler(const std::string& target, const sampler_registry& registered,
                    const sampler_arguments& given);

} // namespace weir
