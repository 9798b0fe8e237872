#include "messages/rule.hpp"

#include "messages/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weir {

namespace {

constexpr std::array all = {
    rule::settled_when_answered,
    rule::stale_epochs_ignored,
    rule::published_only_if_held,
    rule::leased_requests_idempotent,
    rule::answers_matched_by_id,
    rule::gate_opens_by_itself,
    rule::foreign_epoch_taints,
    rule::fence_only_by_instance,
    rule::captured_in_consume_lease,
    rule::directory_synced_after_manifest,
    rule::gate_rechecked_under_lease,
    rule::slot_per_group,
    rule::version_live_on_every_generator,
    rule::fifo_by_admission_version,
    rule::restamped_on_resume,
    rule::open_step_granted_credit,
    rule::earlier_versions_in_bundles,
    rule::stamp_follows_weights,
    rule::drop_replay_keeps_stamps,
    rule::replaced_under_one_lease,
};
static_assert(all.size() <= 32, "a rule has a bit of its own");

} // namespace

std::span<const rule> all_rules() noexcept {
  return all;
}

std::string_view to_string(rule which) noexcept {
  switch (which) {
  case rule::settled_when_answered:
    return "settled_when_answered";
  case rule::stale_epochs_ignored:
    return "stale_epochs_ignored";
  case rule::published_only_if_held:
    return "published_only_if_held";
  case rule::leased_requests_idempotent:
    return "leased_requests_idempotent";
  case rule::answers_matched_by_id:
    return "answers_matched_by_id";
  case rule::gate_opens_by_itself:
    return "gate_opens_by_itself";
  case rule::foreign_epoch_taints:
    return "foreign_epoch_taints";
  case rule::fence_only_by_instance:
    return "fence_only_by_instance";
  case rule::captured_in_consume_lease:
    return "captured_in_consume_lease";
  case rule::directory_synced_after_manifest:
    return "directory_synced_after_manifest";
  case rule::gate_rechecked_under_lease:
    return "gate_rechecked_under_lease";
  case rule::slot_per_group:
    return "slot_per_group";
  case rule::version_live_on_every_generator:
    return "version_live_on_every_generator";
  case rule::fifo_by_admission_version:
    return "fifo_by_admission_version";
  case rule::restamped_on_resume:
    return "restamped_on_resume";
  case rule::open_step_granted_credit:
    return "open_step_granted_credit";
  case rule::earlier_versions_in_bundles:
    return "earlier_versions_in_bundles";
  case rule::stamp_follows_weights:
    return "stamp_follows_weights";
  case rule::drop_replay_keeps_stamps:
    return "drop_replay_keeps_stamps";
  case rule::replaced_under_one_lease:
    return "replaced_under_one_lease";
  }
  return "unknown rule";
}

std::optional<rule> rule_named(std::string_view name) noexcept {
  const auto place = std::ranges::find(all, name, [](rule which) { return to_string(which); });
  if (place == all.end()) return std::nullopt;
  return *place;
}

namespace detail {
constinit std::atomic<std::uint32_t> suspended_rules{0};
} // namespace detail

rule_suspension::rule_suspension(rule which) noexcept : which_(which) {
  const std::uint32_t bit = detail::bit_of(which);
  const std::uint32_t before = detail::suspended_rules.fetch_or(bit, std::memory_order_relaxed);
  ensure((before & bit) == 0, "a rule is suspended once at a time");
}

rule_suspension::~rule_suspension() {
  detail::suspended_rules.fetch_and(~detail::bit_of(which_), std::memory_order_relaxed);
}

} // namespace weir
