#include "actors/sampler/checked_policy.hpp"

#include "messages/limits.hpp"

#include <array>
#include <atomic>
#include <cctype>
#include <exception>
#include <set>
#include <utility>

namespace weir {

namespace {

/// What a policy says of itself, once.
struct declarations {
  std::string name;
  std::uint64_t window = 0;
  std::uint64_t buffer_groups = 0;
  bool gated = false;
  bool stamps = false;
  bool bounds_staleness = true;
  bool evicts_by_weight = false;
  bool supports_buffer_checkpoint = false;
};

/// What a run asks, with the words of errors.
enum class question : std::uint8_t { admits, stamp, select, evict, abort_in_flight };
constexpr std::array<const char*, 5> question_names = {"admits", "stamp", "select", "evict",
                                                       "abort_in_flight"};

constexpr std::size_t name_bytes_max = 64;
constexpr std::uint64_t window_max = 1'000'000;

std::string name_of(group_id group) {
  return "group " + std::to_string(group.value);
}

std::string count_of(std::uint64_t groups) {
  return std::to_string(groups) + (groups == 1 ? " group" : " groups");
}

/// Calls code of a user's own; what it throws becomes an error that says where.
template <class Call>
auto guarded(const std::string& who, const char* asked, Call call) -> decltype(call()) {
  try {
    auto answer = call();
    if (!answer)
      return failure(answer.error().code, who + ": " + asked + ": " + answer.error().text);
    return answer;
  } catch (const std::exception& thrown) {
    return failure(errc::invalid_argument, who + ": " + asked + " threw: " + thrown.what());
  } catch (...) {
    return failure(errc::invalid_argument, who + ": " + asked + " threw what is no std::exception");
  }
}

result<declarations> declarations_of(const sampler_policy& custom, std::uint64_t groups_per_step) {
  return declarations{.name = std::string(custom.name()),
                      .window = custom.window(),
                      .buffer_groups = custom.buffer_groups(groups_per_step),
                      .gated = custom.gated(),
                      .stamps = custom.stamps(),
                      .bounds_staleness = custom.bounds_staleness(),
                      .evicts_by_weight = custom.evicts_by_weight(),
                      .supports_buffer_checkpoint = custom.supports_buffer_checkpoint()};
}

/// A name stands in bundles, events and errors.
bool is_plain(std::string_view name) {
  return !name.empty() && name.size() <= name_bytes_max &&
         std::ranges::all_of(name, [](unsigned char letter) {
           return std::isalnum(letter) != 0 || letter == '_' || letter == '-' || letter == '.';
         });
}

class checked_policy final : public sampler_policy {
public:
  checked_policy(std::shared_ptr<const sampler_policy> custom, std::string who, declarations said,
                 std::uint64_t groups_per_step)
      : custom_(std::move(custom)), who_(std::move(who)), said_(std::move(said)),
        groups_per_step_(groups_per_step) {}

  [[nodiscard]] std::string_view name() const override { return said_.name; }
  [[nodiscard]] std::uint64_t window() const override { return said_.window; }
  [[nodiscard]] bool gated() const override { return said_.gated; }
  [[nodiscard]] bool stamps() const override { return said_.stamps; }
  [[nodiscard]] bool bounds_staleness() const override { return said_.bounds_staleness; }
  [[nodiscard]] bool evicts_by_weight() const override { return said_.evicts_by_weight; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override {
    return said_.supports_buffer_checkpoint;
  }
  [[nodiscard]] std::uint64_t buffer_groups(std::uint64_t groups_per_step) const override {
    ensure(groups_per_step == groups_per_step_, "a sampler is checked for one N");
    return said_.buffer_groups;
  }

  [[nodiscard]] result<bool> admits(std::int64_t dispatched, weight_version live) const override;
  [[nodiscard]] result<std::int64_t> stamp(std::int64_t dispatch_index) const override;
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const override;
  [[nodiscard]] result<std::vector<group_id>> evict(const slot_view& slots,
                                                    weight_version version) const override;
  [[nodiscard]] result<std::vector<group_id>>
  abort_in_flight(const slot_view& slots, weight_version version) const override;

  [[nodiscard]] const std::string& who() const { return who_; }
  [[nodiscard]] std::optional<std::string> unanswered() const;

private:
  template <class Call>
  auto ask(question what, Call call) const {
    const auto index = static_cast<std::size_t>(what);
    ++asking_[index];
    auto answer = guarded(who_, question_names[index], std::move(call));
    --asking_[index];
    return answer;
  }
  [[nodiscard]] tl::unexpected<error> wrong(std::string text) const {
    return failure(errc::invalid_argument, who_ + ": " + std::move(text));
  }
  [[nodiscard]] result<void> check_named(const slot_view& slots,
                                         const std::vector<group_id>& groups, const char* did,
                                         bool ready) const;
  [[nodiscard]] result<void> check_chosen(const policy_slot& slot, weight_version version) const;

  std::shared_ptr<const sampler_policy> custom_;
  std::string who_; ///< "sampler fair (libfair.so:fair)".
  declarations said_;
  std::uint64_t groups_per_step_;
  /// Questions that are with it now, by kind.
  mutable std::array<std::atomic<std::uint32_t>, question_names.size()> asking_ = {};
};

std::optional<std::string> checked_policy::unanswered() const {
  for (std::size_t index = 0; index < asking_.size(); ++index)
    if (asking_[index] > 0) return who_ + " has not answered " + question_names[index];
  return std::nullopt;
}

/// Batches that were admitted and not trained yet must fit into what it declared.
result<bool> checked_policy::admits(std::int64_t dispatched, weight_version live) const {
  auto open = ask(question::admits, [&] { return custom_->admits(dispatched, live); });
  if (!open) return open;
  const std::string batch = std::to_string(dispatched + 1);
  if (!said_.gated && !*open)
    return wrong("admits: keeps batch " + batch + " waiting, and declared that it has no gate");
  if (!said_.gated || !*open) return open;
  const std::int64_t ahead = dispatched + 2 - static_cast<std::int64_t>(live.value);
  if (ahead <= 0) return open;
  const std::uint64_t groups = static_cast<std::uint64_t>(ahead) * groups_per_step_;
  if (groups > said_.buffer_groups)
    return wrong("admits: lets batch " + batch + " in at version " + std::to_string(live.value) +
                 ": " + count_of(groups) + " ahead of training, and declared a buffer of " +
                 std::to_string(said_.buffer_groups));
  return open;
}

result<std::int64_t> checked_policy::stamp(std::int64_t dispatch_index) const {
  const auto asked = [this](std::int64_t index) {
    return ask(question::stamp, [&] { return custom_->stamp(index); });
  };
  auto step = asked(dispatch_index);
  if (!step) return step;
  const std::string said =
      "stamp: batch " + std::to_string(dispatch_index) + " is for step " + std::to_string(*step);
  if (!said_.stamps && *step != -1) return wrong(said + ", and it declared that it does not stamp");
  if (!said_.stamps) return step;
  if (*step < 0) return wrong(said + ", which is no step");
  if (dispatch_index == 0) return step;
  const auto before = asked(dispatch_index - 1);
  if (!before) return before;
  if (*before >= *step)
    return wrong(said + ", the batch before it is for " + std::to_string(*before));
  return step;
}

/// Each of `groups` stands in `slots`, in the right state, and is named once.
result<void> checked_policy::check_named(const slot_view& slots,
                                         const std::vector<group_id>& groups, const char* did,
                                         bool ready) const {
  std::set<group_id> missing;
  for (const group_id group : groups)
    if (!missing.insert(group).second) return wrong(did + name_of(group) + " twice");
  if (missing.empty()) return {};
  for (std::size_t at = 0; at < slots.size; ++at) {
    if (missing.erase(slots.group[at]) == 0) continue;
    if ((slots.ready[at] != 0) != ready)
      return wrong(did + name_of(slots.group[at]) +
                   (ready ? ", which is not ready" : ", which is not in flight"));
  }
  if (missing.empty()) return {};
  return wrong(did + name_of(*missing.begin()) + ", which is not in the buffer");
}

result<void> checked_policy::check_chosen(const policy_slot& slot, weight_version version) const {
  const std::string step = std::to_string(version.value);
  const std::string chosen = "select: took " + name_of(slot.group) + " for step " + step;
  if (said_.stamps && slot.target_step != static_cast<std::int64_t>(version.value))
    return wrong(chosen + ", which is stamped for step " + std::to_string(slot.target_step));
  // What another sampler admitted before a resume is held to the bound only if this one judges
  // groups by their weights.
  const std::uint64_t start = slot.start_version.value_or(version).value;
  if (!said_.bounds_staleness || !said_.evicts_by_weight || start >= version.value) return {};
  const std::uint64_t behind = version.value - start;
  if (behind <= slot.window) return {};
  return wrong(chosen + ", which is " + std::to_string(behind) +
               " versions behind; its window is " + std::to_string(slot.window));
}

result<std::vector<group_id>> checked_policy::select(const slot_view& slots,
                                                     const selection& wanted) const {
  if (auto fine = check_selection(wanted); !fine) return failure(std::move(fine.error()));
  const slot_view seen = wanted.ready_prefix_only ? ready_prefix(slots) : slots;
  auto chosen = ask(question::select, [&] { return custom_->select(seen, wanted); });
  if (!chosen || chosen->empty()) return chosen;
  if (chosen->size() > wanted.groups_max || chosen->size() < wanted.groups_min)
    return wrong("select: took " + count_of(chosen->size()) + " for step " +
                 std::to_string(wanted.version.value) + ", asked for " +
                 std::to_string(wanted.groups_min) + " to " + std::to_string(wanted.groups_max));
  if (auto fine = check_named(seen, *chosen, "select: took ", true); !fine)
    return failure(std::move(fine.error()));
  const std::set<group_id> taken(chosen->begin(), chosen->end());
  for (std::size_t at = 0; at < seen.size; ++at) {
    if (!taken.contains(seen.group[at])) continue;
    if (auto fine = check_chosen(seen[at], wanted.version); !fine)
      return failure(std::move(fine.error()));
  }
  return chosen;
}

result<std::vector<group_id>> checked_policy::evict(const slot_view& slots,
                                                    weight_version version) const {
  auto stale = ask(question::evict, [&] { return custom_->evict(slots, version); });
  if (!stale) return stale;
  if (auto fine = check_named(slots, *stale, "evict: gave up ", true); !fine)
    return failure(std::move(fine.error()));
  return stale;
}

result<std::vector<group_id>> checked_policy::abort_in_flight(const slot_view& slots,
                                                              weight_version version) const {
  auto stale =
      ask(question::abort_in_flight, [&] { return custom_->abort_in_flight(slots, version); });
  if (!stale) return stale;
  if (auto fine = check_named(slots, *stale, "abort_in_flight: gave up ", false); !fine)
    return failure(std::move(fine.error()));
  return stale;
}

} // namespace

result<std::shared_ptr<const sampler_policy>> checked(std::shared_ptr<const sampler_policy> custom,
                                                      std::string source,
                                                      std::uint64_t groups_per_step) {
  ensure(custom != nullptr, "there is a sampler to check");
  ensure(groups_per_step >= 1, "a step has at least one group");
  auto said = guarded("sampler (" + source + ")", "its declarations",
                      [&] { return declarations_of(*custom, groups_per_step); });
  if (!said) return failure(std::move(said.error()));
  const auto refused = [&source](const std::string& text) {
    return failure(errc::invalid_argument, "sampler (" + source + "): " + text);
  };
  if (!is_plain(said->name))
    return refused("name(): '" + said->name +
                   "' is no name: letters, digits, '_', '-', '.', at most " +
                   std::to_string(name_bytes_max));
  if (is_built_in_sampler(said->name))
    return refused("name(): " + said->name + " is a built-in sampler; choose another name");
  if (said->window > window_max)
    return refused("window(): " + std::to_string(said->window) + " is above " +
                   std::to_string(window_max));
  if (said->buffer_groups < groups_per_step)
    return refused("buffer_groups(" + std::to_string(groups_per_step) +
                   "): " + std::to_string(said->buffer_groups) + " is less than one step of " +
                   count_of(groups_per_step));
  const std::string who = "sampler " + said->name + " (" + source + ")";
  return std::make_shared<const checked_policy>(std::move(custom), who, std::move(*said),
                                                groups_per_step);
}

std::string title_of(const sampler_policy& policy) {
  const auto* custom = dynamic_cast<const checked_policy*>(&policy);
  return custom != nullptr ? custom->who() : "sampler " + std::string(policy.name());
}

std::optional<std::string> unanswered(const sampler_policy& policy) {
  const auto* custom = dynamic_cast<const checked_policy*>(&policy);
  return custom != nullptr ? custom->unanswered() : std::nullopt;
}

} // namespace weir
