// The one file of this folder that calls the operating system: dlopen.
#include "actors/sampler/custom_sampler.hpp"

#include "actors/sampler/checked_policy.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <exception>
#include <utility>

namespace weir {

namespace {

using policy_ptr = std::shared_ptr<const sampler_policy>;

/// An open shared object. Its last owner closes it.
using library_ptr = std::shared_ptr<void>;

tl::unexpected<error> refused(errc code, const std::string& target, const std::string& text) {
  return failure(code, "async_rl.sampler.target (" + target + "): " + text);
}

/// The text of the loader, which names file and reason.
std::string loader_text() {
  const char* text = ::dlerror();
  return text == nullptr ? "the loader does not say why" : text;
}

/// What the object's symbol table says of the symbol at `address`: a function is none of ours.
bool is_data_of_size(const void* address, std::size_t bytes) {
  Dl_info place{};
  void* extra = nullptr;
  if (::dladdr1(address, &place, &extra, RTLD_DL_SYMENT) == 0 || extra == nullptr) return false;
  const auto* entry = static_cast<const ElfW(Sym)*>(extra);
  return ELF64_ST_TYPE(entry->st_info) == STT_OBJECT && entry->st_size >= bytes;
}

result<const sampler_plugin*> find_plugin(const library_ptr& library, const std::string& name,
                                          const sampler_target& target) {
  const void* address = ::dlsym(library.get(), target.symbol.c_str());
  if (address == nullptr)
    return refused(errc::not_found, name,
                   "there is no symbol " + target.symbol + "; is it declared extern \"C\"?");
  const std::string other = target.symbol + " is no weir::sampler_plugin";
  if (!is_data_of_size(address, sizeof(sampler_plugin)))
    return refused(errc::invalid_argument, name, other);
  const auto* plugin = static_cast<const sampler_plugin*>(address);
  if (!plugin->has_mark()) return refused(errc::invalid_argument, name, other);
  if (plugin->abi() != sampler_abi)
    return refused(errc::unsupported, name,
                   "it was built for version " + std::to_string(plugin->abi()) +
                       " of the sampler interface, this program has version " +
                       std::to_string(sampler_abi) + ": build it with this program's headers");
  return plugin;
}

/// Calls a factory of a user's own.
result<policy_ptr> made_by(const sampler_factory& make, const std::string& target,
                           const sampler_arguments& given) {
  try {
    policy_ptr policy = make(given);
    if (policy == nullptr)
      return refused(errc::invalid_argument, target, "its factory makes no sampler");
    return policy;
  } catch (const std::exception& thrown) {
    return refused(errc::invalid_argument, target,
                   std::string("its factory threw: ") + thrown.what());
  } catch (...) {
    return refused(errc::invalid_argument, target, "its factory threw what is no std::exception");
  }
}

result<policy_ptr> load(const std::string& name, const sampler_target& target,
                        const sampler_arguments& given) {
  const library_ptr library(::dlopen(target.library.c_str(), RTLD_NOW | RTLD_LOCAL),
                            [](void* handle) {
                              if (handle != nullptr) ::dlclose(handle);
                            });
  if (library == nullptr) return refused(errc::not_found, name, loader_text());
  const auto plugin = find_plugin(library, name, target);
  if (!plugin) return failure(plugin.error());
  auto policy = made_by((*plugin)->make(), name, given);
  if (!policy) return policy;
  // Its code is in the library: who holds the policy holds both, and lets go of the policy first.
  struct held {
    library_ptr library;
    policy_ptr policy;
  };
  auto both = std::make_shared<held>(held{library, std::move(*policy)});
  const sampler_policy* seen = both->policy.get();
  return policy_ptr(std::move(both), seen);
}

result<policy_ptr> find(const std::string& name, const sampler_registry& registered,
                        const sampler_arguments& given) {
  if (const sampler_factory* make = registered.find(name)) return made_by(*make, name, given);
  std::string known;
  for (const std::string& one : registered.names())
    known.append(known.empty() ? "" : ", ").append(one);
  return refused(errc::not_found, name,
                 "no sampler of this name is registered (" +
                     (known.empty() ? std::string("none is") : "known: " + known) +
                     "); one in a shared object is named FILE:SYMBOL");
}

} // namespace

void sampler_registry::add(const std::string& name, sampler_factory make) {
  ensure(!name.empty() && name.find(':') == std::string::npos, "a registered name is plain");
  ensure(make != nullptr, "a registered sampler can be made");
  ensure(factories_.emplace(name, std::move(make)).second, "a name is registered once");
}

const sampler_factory* sampler_registry::find(const std::string& name) const {
  const auto place = factories_.find(name);
  return place == factories_.end() ? nullptr : &place->second;
}

std::vector<std::string> sampler_registry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, make] : factories_)
    names.push_back(name);
  return names;
}

result<sampler_target> parse_sampler_target(const std::string& target) {
  const std::size_t colon = target.rfind(':');
  sampler_target parts;
  if (colon != std::string::npos) parts.library = target.substr(0, colon);
  parts.symbol = target.substr(colon == std::string::npos ? 0 : colon + 1);
  if (parts.symbol.empty() || (colon != std::string::npos && parts.library.empty()))
    return refused(errc::invalid_argument, target,
                   "expected a registered name, or FILE:SYMBOL of a shared object");
  return parts;
}

result<policy_ptr> make_custom_sampler(const std::string& target,
                                       const sampler_registry& registered,
                                       const sampler_arguments& given) {
  const auto parts = parse_sampler_target(target);
  if (!parts) return failure(parts.error());
  auto policy =
      parts->library.empty() ? find(target, registered, given) : load(target, *parts, given);
  if (!policy) return policy;
  return checked(std::move(*policy), target, given.groups_per_step);
}

} // namespace weir
