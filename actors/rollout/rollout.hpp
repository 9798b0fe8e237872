/// The rollout actor: one coroutine per prompt group, from the dataset to a committed group.
///
///     reserve -> admit -> start -> generate -> score -> stage -> commit
///
/// It owns no durable state; it is the origin of the mutations reserve, admit, commit, drop and
/// those of the reserve (divert, drain, replace).
/// Each of them is one shielded transaction under one lease, and nothing that takes long
/// (generation, rewards, staging, waiting at a gate) happens under a lease. The dispatcher starts
/// groups in dispatch order, one after the other, so slots and permits are first come first served
/// by construction; the groups then run side by side.
///
/// Waits on: dataloader (peek, reserve, fetch), sampler (admission and the ledger), replay (slots,
/// staging, commit), a generator's token stream, environments. Its coroutines end with the actor.
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/protocols.hpp"
#include "actors/rollout/health_state.hpp"
#include "actors/rollout/rollout_group.hpp"
#include "actors/rollout/rollout_state.hpp"
#include "actors/run_counters.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// Text <-> tokens, as the rollout actor needs it: made by the driver from a tokenizer.
struct text_codec {
  std::function<std::vector<std::int32_t>(std::string_view)> encode;
  std::function<std::string(std::span<const std::int32_t>)> decode;
};

struct rollout_options {
  rollout_limits limits;
  failure_limits failures;
  health_options health;
  std::uint32_t siblings = 16;
  std::uint32_t max_new_tokens = 16;
  std::chrono::nanoseconds generation_timeout = std::chrono::seconds(300);
  std::chrono::nanoseconds env_timeout = std::chrono::seconds(60);
  std::chrono::nanoseconds rollout_timeout = std::chrono::seconds(500);
  /// For requests that are answered at once by a live peer.
  std::chrono::nanoseconds request_timeout = std::chrono::seconds(30);
  /// How long one wait at a gate or for a slot lasts before it is asked again.
  std::chrono::nanoseconds gate_timeout = std::chrono::seconds(60);
  /// `weight_update: pinned`; without them, groups take what is live.
  std::optional<weight_pins> pins = {};
};

/// Everybody the rollout actor asks.
struct rollout_peers {
  handle<dataloader_protocol> loader;
  handle<sampler_protocol> sampler;
  handle<replay_protocol> replay;
  std::vector<handle<generator_protocol>> generators;
  std::vector<handle<environment_protocol>> environments;

  template <class Wiring>
  void wire(Wiring& wiring) const {
    wiring.needs(loader);
    wiring.needs(sampler);
    wiring.needs(replay);
    wiring.needs_each(generators);
    wiring.needs_each(environments);
  }
};

class rollout : public participant {
public:
  using protocol = rollout_protocol;
  static constexpr bool is_origin = true;

  rollout(context ctx, rollout_options options, rollout_peers peers, text_codec codec,
          event_sink& events, std::shared_ptr<run_counters> counters);

private:
  task<void> run() override;
  task<result<void>> dispatch();

  // After a restore.
  task<result<void>> recover();
  task<result<void>> drop_spent(std::vector<spent_group> spent);
  task<result<void>> start_admitted(std::vector<ledger_record> records);
  task<result<std::vector<PromptT>>> fetch(std::vector<PromptKeyT> keys);

  // The supply of groups, one move of `rollout_state` each.
  task<result<void>> reserve_next(next_supply next);
  task<result<void>> admit_next(next_supply next);
  task<result<void>> drop_remainder(next_supply next);
  task<result<prompt_batch>> peek(std::uint64_t count);
  task<result<void>> take_batch(std::shared_ptr<const prompt_batch> batch, next_supply next);
  task<result<message<AdmissionOpened>>> gate_open(std::uint64_t admission);

  // The reserve (rollout_reserve.cpp).
  task<result<void>> divert_next(next_supply next);
  task<result<void>> drain_next(next_supply next);
  task<void> run_spare(ledger_record spare);
  task<void> reserve_low();

  // One group, from its start to its end.
  void start(group_ptr group);
  task<void> run_group(group_ptr group);
  task<result<void>> finish_group(group_ptr group);
  task<result<void>> take_slot(group_ptr group);
  task<void> take_flight(group_ptr group);
  task<result<void>> produce(group_ptr group, std::size_t generator);
  task<result<void>> generate(group_ptr group, std::size_t chosen);
  // Generators (rollout_health.cpp).
  task<void> watch_generators();
  task<void> probe(std::size_t generator);
  task<std::size_t> take_generator(group_ptr group);
  task<void> score_sibling(group_ptr group, std::uint32_t sibling);

  // Groups that are too old to be worth finishing (rollout_abort.cpp).
  task<void> give_up_stale();
  task<result<void>> abort(group_id group);
  task<void> aborted(group_id group);
  void tell_begun(group_ptr group);

  // Mutations: one lease each, shielded by the caller.
  task<result<void>> reserve(std::shared_ptr<const prompt_batch> batch, std::uint64_t admission);
  task<result<admission_outcome>> admit(std::uint64_t admission);
  task<result<void>> commit(group_ptr group);
  task<result<failure_verdict>> record_failure(group_ptr group, FailureKind kind);
  task<result<void>> drop(std::vector<std::uint64_t> groups, DropReason reason);
  task<result<void>> divert(std::shared_ptr<const prompt_batch> batch);
  task<result<std::vector<ledger_record>>> drain(next_supply next);
  task<result<void>> give_up(std::uint64_t group, DropReason reason);

  [[nodiscard]] std::optional<std::uint64_t> pin_of(const rollout_group& group) const;
  void check_invariants() const override { state_.check_invariants(); }
  void flights_moved();
  [[nodiscard]] group_ptr make_group(PromptT prompt, group_stamp stamp,
                                     std::uint32_t content_attempt) const;

  const rollout_options options_;
  const rollout_peers peers_;
  const text_codec codec_;
  const std::shared_ptr<run_counters> counters_;
  rollout_state state_;
  std::map<group_id, PromptT> reserved_prompts_; ///< Of the groups that wait for admission.
  /// Content attempts of restored groups among them, where they are not the first.
  std::map<group_id, std::uint32_t> reserved_attempts_;
  health_state health_;
  signal flights_moved_;
  signal group_ended_;
  signal spares_moved_;
  signal health_moved_;
  std::set<group_id> aborted_; ///< Their ledger entries are gone, their coroutines not yet.
  signal groups_aborted_;
  scope groups_;
};

} // namespace weir
