/// The checkpoint actor: cuts, writes and publishes bundles.
///
/// Who is asked what and when is `barrier_state`'s; this shell sends what it says, and feeds the
/// answers back. Off the barrier it has the owners write their captured sections side by side, then
/// publishes and retires on the blocking pool. It may die, hang or be cut off at any point: gates
/// open by themselves, and a bundle counts only once it is published. Restarted in place, it first
/// aborts what its life before left open, and numbers its epochs above those of that life.
///
/// Waits on: origins (quiesced, resumed), owners (captured, section written), the disk.
#pragma once

#include "actors/audit/event_log.hpp"
#include "actors/checkpoint/barrier_state.hpp"
#include "actors/checkpoint/bundle_store.hpp"
#include "actors/checkpoint/schedule_state.hpp"
#include "actors/protocols.hpp"
#include "actors/run_counters.hpp"
#include "actors/runtime/actor.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weir {

struct checkpoint_options {
  barrier_options barrier;
  /// Only `save_interval_ns` and `must_save_by_ns` are decided here; periods are the trainer's.
  save_schedule schedule;
  /// For one section; after half of it, what is written at leisure is hurried.
  std::chrono::nanoseconds write_timeout = std::chrono::seconds(300);
  std::string metric_name = "train:reward";
  /// True when this incarnation restored a bundle: nothing is written until something mutates.
  bool restored = false;
};

/// Who takes part in the barrier, by name: the trainer is asked for a cut and asks for one itself,
/// so they are looked up when the graph runs, not handed over when it is built.
struct checkpoint_peers {
  std::vector<std::string> origins;
  std::vector<std::string> owners;
  handle<observer_protocol> observer; ///< May be empty.

  template <class Wiring>
  void wire(Wiring& wiring) const {
    wiring.may_use(observer);
    wiring.barrier_over(origins, owners);
  }
};

/// What one checkpoint did, for `metrics.jsonl`.
struct checkpoint_record {
  CheckpointPublishedT published;
  std::uint64_t tokens_while_writing = 0;
  std::string reason;
};

/// What the lives of a checkpoint actor share; its own, and empty at first.
struct checkpoint_lives {
  std::uint64_t begun = 0;
  std::optional<event_stream> events; ///< Its events are numbered from life to life.
  std::optional<CheckpointPublishedT> newest;
  epoch_id newest_logged = {}; ///< Of the newest `published_event`.
};

/// What it works with. `store` and `log` are used on pool threads.
struct checkpoint_services {
  std::shared_ptr<bundle_store> store;
  std::shared_ptr<event_log> log;
  std::shared_ptr<run_counters> counters;
  std::function<void(const checkpoint_record&)> record;      ///< May be empty. Called on the actor.
  std::function<void(const error& why)> record_failure = {}; ///< The same, for one that failed.
  std::shared_ptr<checkpoint_lives> lives = std::make_shared<checkpoint_lives>();
};

class checkpoint : public actor {
public:
  using protocol = checkpoint_protocol;

  checkpoint(context ctx, checkpoint_options options, checkpoint_peers peers,
             checkpoint_services services);

private:
  using published_reply = result<message<CheckpointPublished>>;

  /// One request and, once it is there, its answer.
  struct ticket {
    std::string reason;
    bool awaited = false; ///< Whoever asked takes the answer; otherwise nobody does.
    bool urgent = false;  ///< The run waits for it, so that nothing is written at leisure.
    std::optional<result<CheckpointPublishedT>> answer;
  };

  /// Every gate and owner of the graph is known to the barrier, and nobody else is.
  [[nodiscard]] result<void> check_graph(const graph_roster& all) const override;
  task<void> run() override; ///< Deadlines of the barrier, and saves by time.
  task<published_reply> on_request(message<RequestCheckpoint> request);
  task<void> on_periodic(message<PeriodicCheckpoint> note);

  // One coroutine per message to a participant; each feeds the answer back.
  task<void> announce(send_announce what);
  task<void> quiesce(send_quiesce what);
  task<void> cut(send_cut what);
  task<void> resume(send_resume what);
  task<void> publish(cut_facts cut);
  task<result<CheckpointPublishedT>> write_and_publish(cut_facts cut);
  task<result<void>> write_sections(std::shared_ptr<unfinished_bundle> bundle);
  task<void> write_section(std::shared_ptr<unfinished_bundle> bundle, std::string owner);
  task<void> retire();
  task<void> wait_for_change();
  task<void> sleep(std::chrono::nanoseconds rest);

  [[nodiscard]] result<void> find_participants();
  task<void> abort_earlier_life();
  void perform(const barrier_effects& effects);
  void perform_one(const barrier_effect& effect);
  void log_published(const published_event& what);
  void settle(const std::vector<request_ticket>& tickets,
              const result<CheckpointPublishedT>& answer);
  [[nodiscard]] request_ticket issue(ticket request);
  [[nodiscard]] bool is_urgent() const;
  void hurry_if_awaited();
  void schedule(save_reason reason);
  [[nodiscard]] std::vector<lease_report> lease_reports() const;
  [[nodiscard]] std::int64_t now() { return clock().now(); }

  const checkpoint_options options_;
  const checkpoint_peers peers_;
  const context self_;
  std::map<std::string, handle<origin_protocol>> origins_;
  std::map<std::string, handle<owner_protocol>> owners_;
  const checkpoint_services services_;
  const std::uint64_t number_; ///< Of this life among those of the actor, from 1.
  barrier_state barrier_;
  schedule_state schedule_;
  std::map<std::uint64_t, ticket> tickets_;
  std::uint64_t next_ticket_ = 1;
  std::optional<request_ticket> scheduled_; ///< The ticket of the save that the schedule asked for.
  bool retiring_ = false;
  bool retire_due_ = false;
  std::optional<bool> hurried_;         ///< What the background's pool was told last.
  std::optional<std::int64_t> late_at_; ///< When the bundle that is written now gets late.
  bool pressed_ = false;                ///< It is late, or failed.
  std::optional<double> metric_;
  bool fenced_; ///< Nothing of an earlier life is published any more.
  signal changed_;
  signal answered_;
  signal fence_raised_;
  scope conversations_;
};

} // namespace weir
