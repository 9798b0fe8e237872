#include "tests/simulation/final_checks.hpp"

#include "actors/audit/run_audit.hpp"
#include "actors/checkpoint/balance.hpp"
#include "actors/checkpoint/participant.hpp"
#include "tests/simulation/tiny_job.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weir::sim {

namespace {

tl::unexpected<error> wrong(std::string text) {
  return failure(errc::internal, std::move(text));
}

result<void> check_no_leftovers(dataplane::disk& storage) {
  for (const char* path : {run_directory_path, checkpoint_directory_path}) {
    const auto entries = storage.list(path);
    if (!entries) return failure(entries.error());
    for (const dataplane::directory_entry& entry : *entries) {
      const std::string& name = entry.name;
      if (name == dataplane::spare_tree_name) continue; // Kept as long as the run lives.
      if (name.starts_with(".tmp-") || name.starts_with(".retired-") || name.ends_with(".tmp"))
        return wrong(dataplane::join(path, name) + " is left over");
    }
  }
  return {};
}

std::string text_of(const audit_report& audit) {
  std::string text = "the audit finds " + std::to_string(audit.problems_total) + " problems";
  for (std::size_t i = 0; i < audit.problems.size() && i < 5; ++i)
    text += "\n  " + to_string(audit.problems[i]);
  return text;
}

group_tally tally_of_all(const std::vector<group_id>& groups) {
  group_tally tally;
  for (const group_id group : groups)
    tally.add(group);
  return tally;
}

std::vector<group_id> sorted(std::vector<group_id> groups) {
  std::ranges::sort(groups);
  return groups;
}

} // namespace

result<void> check_same_cut(const restored_states& states, const tiny_policy& policy) {
  const std::string name = dataplane::to_string(states.bundle.name);
  if (policy.step != states.bundle.content.step)
    return wrong(name + " holds the policy of step " + std::to_string(policy.step));
  if (policy.trained != states.replay.consumed)
    return wrong(name + ": the policy was trained on " + to_string(policy.trained) +
                 ", and the bundle counts as consumed " + to_string(states.replay.consumed));
  return {};
}

result<void> check_balanced(composed_life& life) {
  cut_tallies sums;
  const auto look = [&sums](actor& shown) {
    auto* const owner = dynamic_cast<participant*>(&shown);
    if (owner == nullptr) return;
    owner->check_invariants();
    const cut_tallies part = owner->tallies();
    sums.handed_out += part.handed_out;
    for (std::size_t state = 0; state < group_states; ++state)
      sums.in_state[state] += part.in_state[state];
  };
  life.actors->inspect(look);
  // Half of a transaction is in one owner, the other half not yet in another.
  if (life.actors->counters().unsettled_leases > 0) return {};
  return check_balance(sums);
}

result<void> check_nothing_left(composed_life& life, const run_plan& plan, finish_reason end) {
  if (end != finish_reason::end_of_data) return {}; // Look-ahead goes on, under leases.
  const actor_counters counters = life.actors->counters();
  if (counters.unsettled_leases != 0)
    return wrong(std::to_string(counters.unsettled_leases) + " leases are left");
  // A generator that is silent for an hour still holds its end.
  if (counters.open_streams != 0 && plan.silences_one_in == 0)
    return wrong(std::to_string(counters.open_streams) + " streams are left");
  const dataplane::store_stat rows = life.rows->stat();
  if (rows.staged_rows != 0 || rows.committed_rows != 0)
    return wrong(std::to_string(rows.staged_rows) + " staged and " +
                 std::to_string(rows.committed_rows) + " committed rows are left");
  return {};
}

result<void> look_at_the_end(dataplane::disk& storage, const restore_request& request,
                             final_state& state) {
  if (auto fine = check_no_leftovers(storage); !fine) return fine;
  auto audit = audit_run(storage, run_directory_path);
  if (!audit) return failure(std::move(audit.error()));
  if (!audit->clean()) return wrong(text_of(*audit));
  state.audit = std::move(*audit);
  const auto survey = dataplane::survey_bundles(storage, checkpoint_directory_path);
  if (!survey) return failure(survey.error());
  const auto newest = dataplane::newest_valid_bundle(storage, checkpoint_directory_path, *survey);
  if (!newest) return failure(newest.error());
  if (!*newest) return wrong("the job is done, and there is no bundle");
  const auto states = load_bundle(storage, request, (*newest)->chosen);
  if (!states) return failure(states.error());
  const auto policy = read_tiny_policy(*states);
  if (!policy) return failure(policy.error());
  state.policy = tiny(*policy);
  if (auto fine = check_same_cut(*states, state.policy); !fine) return fine;
  if (state.policy.trained != tally_of_all(state.audit.consumed))
    return wrong("the last policy was trained on " + to_string(state.policy.trained) +
                 ", and the audit has consumed " + to_string(tally_of_all(state.audit.consumed)));
  return {};
}

result<void> compare(const run_plan& plan, const final_state& undisturbed,
                     const final_state& disturbed) {
  if (plan.sampler.name == "windowed" || !plan.later_samplers.empty()) return {};
  if (drops_by_chance(plan)) return {};
  if (drops_prompts(plan) && plan.sampler.name != "in_order") return {};
  if (undisturbed.end != disturbed.end) return wrong("the run ended for another reason");
  const auto& before = undisturbed.audit.consumed;
  const auto& after = disturbed.audit.consumed;
  if (before.size() != after.size())
    return wrong("an uninterrupted run trains on " + std::to_string(before.size()) +
                 " groups, this one did on " + std::to_string(after.size()));
  const bool all_of_data = undisturbed.end == finish_reason::end_of_data &&
                           plan.dataset * plan.epochs % plan.groups_per_step == 0;
  const bool in_order = plan.sampler.name == "in_order";
  if ((in_order || all_of_data) && sorted(before) != sorted(after))
    return wrong("an uninterrupted run trains on other groups");
  // Chunks of a step come as they are ready, unless the run shall be reproducible.
  const bool reproducible =
      plan.pinned || (plan.sampler.window == 0 && plan.sampler.name != "windowed");
  if (in_order && (plan.chunk_min == 0 || reproducible) &&
      undisturbed.policy.order != disturbed.policy.order)
    return wrong("an uninterrupted run trains in another order");
  if (plan.drops_replay) return {}; // Fresh samples are other samples.
  if (reproducible && undisturbed.policy.bits != disturbed.policy.bits)
    return wrong("an uninterrupted run ends with other weights");
  return {};
}

} // namespace weir::sim
