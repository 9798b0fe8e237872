#include "benchmarks/checkpoint_graph.hpp"

#include "actors/audit/event_log.hpp"
#include "actors/dataloader/dataloader.hpp"
#include "actors/replay/replay.hpp"
#include "actors/replay/rollout_rows.hpp"
#include "actors/sampler/sampler.hpp"
#include "benchmarks/asking.hpp"
#include "dataplane/posix_disk.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace weir::benchmarks {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t groups_per_step = checkpoint_graph_groups_per_step;
/// Bytes of one completion token in a row: token, log-probability, version.
constexpr std::uint64_t token_bytes = 16;

template <class T>
T need(result<T> value) {
  if (!value) std::fprintf(stderr, "checkpoint_bench: %s\n", to_string(value.error()).c_str());
  ensure(value.has_value(), "the graph of a benchmark can be built");
  return std::move(*value);
}

/// Bytes that LZ4 cannot make smaller: a measured write is a write of that size.
std::uint64_t scrambled(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

class no_events final : public event_sink {
public:
  void append(std::string_view, sequence_number, const event&) override {}
};

/// In place of rollout: one transaction a millisecond.
class busy_origin final : public participant {
public:
  using protocol = rollout_protocol;
  static constexpr bool is_origin = true;
  busy_origin(context ctx, handle<sampler_protocol> ledger, event_sink& events)
      : participant(std::move(ctx), barrier_role::only_origin, events), ledger_(std::move(ledger)) {
  }

private:
  task<void> run() override {
    const auto request = pack(SettleStepT());
    while (true) {
      auto lease = co_await mutations().enter();
      auto settled = co_await ledger_.ask(lease, request, within(10s));
      ensure(settled.has_value(), "a settle is never refused");
      lease.release();
      co_await clock().after(1ms);
    }
  }
  handle<sampler_protocol> ledger_;
};

/// In place of the trainer: a policy, and a step that moves.
class still_trainer final : public participant {
public:
  using protocol = trainer_protocol;
  static constexpr bool is_origin = true;
  static constexpr bool is_owner = true;
  still_trainer(context ctx, std::uint64_t bytes, event_sink& events)
      : participant(std::move(ctx), barrier_role::both, events) {
    auto policy = std::make_shared<std::vector<std::uint64_t>>(bytes / sizeof(std::uint64_t));
    for (std::size_t i = 0; i < policy->size(); ++i)
      (*policy)[i] = scrambled(i);
    policy_ = std::move(policy);
  }

private:
  captured_section capture() override {
    captured_section section;
    section.sequence = events().newest();
    section.trainer_step = captured_step() + 1;
    section.write = [policy = policy_](const section_target& target) {
      return write_one_section(target, "policy/state.bin", std::as_bytes(std::span(*policy)));
    };
    return section;
  }
  std::shared_ptr<const std::vector<std::uint64_t>> policy_;
};

dataset synthetic_records(std::uint64_t count) {
  std::string lines;
  for (std::uint64_t i = 0; i < count; ++i)
    lines += "{\"question\": \"" + std::to_string(i) + " + 1 = ?\", \"answer\": \"?\"}\n";
  return need(dataset::parse("synthetic", std::move(lines), {}));
}

/// One group as rollout would stage it.
StageGroupT rollout_of(std::uint64_t group, std::uint32_t siblings, std::uint64_t tokens) {
  StageGroupT staged;
  staged.group = group;
  for (std::uint32_t sibling = 0; sibling < siblings; ++sibling) {
    auto one = std::make_unique<SiblingRolloutT>();
    one->prompt_length = 1;
    one->tokens.resize(tokens + 1);
    one->logprobs.resize(tokens);
    one->versions.assign(tokens, 0);
    for (std::uint64_t i = 0; i < tokens; ++i) {
      const std::uint64_t bits = scrambled((group * siblings + sibling) * tokens + i);
      one->tokens[i] = static_cast<std::int32_t>(bits >> 33);
      one->logprobs[i] = -static_cast<float>(bits & 0xffffffU);
    }
    staged.siblings.push_back(std::move(one));
  }
  return staged;
}

struct owner_states {
  dataloader_state loader;
  sampler_state ledger;
  replay_contents buffer;
};

group_reservation reservation_of(const prompt_record& record, std::uint32_t siblings) {
  return {record.group, record.sample, record.hash, record.task, siblings};
}

/// Reserves and admits one batch of the data.
void admit_batch(owner_states& states, std::uint32_t siblings, event_stream& events) {
  std::vector<group_reservation> batch;
  for (const prompt_record& record : states.loader.peek(groups_per_step))
    batch.push_back(reservation_of(record, siblings));
  const std::uint64_t admission = states.ledger.next_admission();
  const auto moved = states.loader.reserve(batch.front().group, batch.size());
  ensure(moved.has_value(), "the data suffices");
  std::ignore = need(states.ledger.reserve(admission, batch, events, 1));
  ensure(need(states.ledger.admit(admission, events, 1)).admitted, "the gate is open");
}

/// Moves an admitted group into replay, with rows.
void commit_group(owner_states& states, group_id group, std::uint32_t siblings,
                  std::uint64_t tokens, event_stream& events) {
  const ledger_record record = *states.ledger.capture().find(group);
  const auto stamp = need(states.ledger.release(group, 0));
  replay_state& index = states.buffer.index;
  const auto asked = index.request_start(
      {group, record.dispatch_index, record.target_step, record.admission_version, record.window});
  ensure(asked.has_value() && !index.grant_permits().empty(), "there are permits for all");
  const auto staged = pack(rollout_of(group.value, siblings, tokens));
  const auto rows = need(rollout_rows::of(*staged));
  const auto ids = need(states.buffer.rows->stage(rollout_partition, rows.rows()));
  std::ignore = need(index.stage({group, 0, weight_version(0), weight_version(0), ids}));
  const auto committed =
      need(index.commit({group, 0, stamp->sample, stamp->dispatch_index, stamp->target_step,
                         stamp->admission_version, stamp->window},
                        events, 1));
  ensure(states.buffer.rows->commit(rollout_partition, committed).has_value(), "rows are staged");
}

owner_states synthetic_states(const checkpoint_graph_options& options) {
  const auto policy = need(make_sampler_policy({.name = "windowed"}));
  owner_states states{
      dataloader_state(synthetic_records(options.groups), {.shuffle = false}),
      sampler_state(policy, groups_per_step, failure_limits()),
      {replay_state(policy, {.groups_buffered_max = 2 * options.groups}),
       std::make_shared<dataplane::store>(dataplane::store_options())},
  };
  no_events sink;
  event_stream events(sink, "setup");
  for (std::uint64_t group = 0; group < options.groups; group += groups_per_step)
    admit_batch(states, options.siblings, events);
  const std::uint64_t ready = options.groups / 2;
  const std::uint64_t tokens = options.payload_bytes / (ready * options.siblings * token_bytes);
  for (std::uint64_t group = 0; group < ready; ++group)
    commit_group(states, group_id(group), options.siblings, tokens, events);
  return states;
}

struct barrier_handles {
  std::vector<handle<origin_protocol>> origins;
  std::vector<handle<owner_protocol>> owners;
};

/// What the checkpoint actor does up to Resumed; then the captures are dropped.
task<double> one_barrier(barrier_handles peers, std::uint64_t number) {
  const EpochId epoch(1, 2, number);
  QuiesceT quiesce;
  quiesce.epoch = std::make_unique<EpochId>(epoch);
  quiesce.hold_limit_ns = 12'000'000'000;
  quiesce.answer_within_ns = 4'500'000'000;
  CutT cut;
  cut.epoch = std::make_unique<EpochId>(epoch);
  ResumeT resume;
  resume.epoch = std::make_unique<EpochId>(epoch);
  AbortEpochT drop;
  drop.epoch = std::make_unique<EpochId>(epoch);
  bool fine = true;
  scope phase;
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& gate : peers.origins)
    phase.spawn(&ask_into<origin_protocol, Quiesce>, gate, pack(quiesce), &fine);
  co_await phase.joined();
  for (const auto& owner : peers.owners)
    phase.spawn(&ask_into<owner_protocol, Cut>, owner, pack(cut), &fine);
  co_await phase.joined();
  for (const auto& gate : peers.origins)
    phase.spawn(&ask_into<origin_protocol, Resume>, gate, pack(resume), &fine);
  co_await phase.joined();
  const std::chrono::duration<double, std::nano> held = std::chrono::steady_clock::now() - begin;
  for (const auto& owner : peers.owners)
    owner.tell(pack(drop));
  ensure(fine, "every gate and owner answers");
  co_return held.count();
}

task<void> ask_for_save(handle<checkpoint_protocol> keeper) {
  keeper.tell(pack(PeriodicCheckpointT()));
  co_return;
}

/// What was published and is not looked at yet.
class published_queue {
public:
  void push(CheckpointPublishedT one) {
    {
      const std::lock_guard guard(mutex_);
      queue_.push_back(std::move(one));
    }
    came_.notify_one();
  }
  [[nodiscard]] CheckpointPublishedT pop() {
    std::unique_lock lock(mutex_);
    ensure(came_.wait_for(lock, 60s, [this] { return !queue_.empty(); }), "a bundle is published");
    CheckpointPublishedT one = std::move(queue_.front());
    queue_.pop_front();
    return one;
  }

private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<CheckpointPublishedT> queue_;
};

const std::vector<std::string> origin_names = {"rollout", "trainer", "replay"};
const std::vector<std::string> owner_names = {"dataloader", "sampler", "replay", "trainer"};

} // namespace

struct checkpoint_graph::parts {
  parts(const checkpoint_graph_options& options, std::string path)
      : directory_path(std::move(path)), storage(dataplane::make_posix_disk()),
        directory(std::make_shared<dataplane::run_directory>(need(dataplane::run_directory::acquire(
            *storage, directory_path, {dataplane::this_process(), "now"})))),
        life(need(directory->raise_incarnation(incarnation(0)))),
        log(std::make_shared<event_log>(
            life, need(dataplane::append_log::open(*storage, directory->events_path(life))))),
        env({.storage = storage.get()}), actors(env, {.workers = options.workers, .life = life}) {
    owner_states states = synthetic_states(options);
    payload_bytes = states.buffer.rows->stat().live_bytes;
    compose(std::move(states), options.policy_bytes);
  }

  void compose(owner_states states, std::uint64_t policy_bytes) {
    const auto counters = std::make_shared<run_counters>();
    const auto terms = states.buffer.terms;
    std::ignore = actors.add<dataloader>("dataloader", std::move(states.loader), *log);
    const auto ledger = actors.add<sampler>("sampler", std::move(states.ledger), *log);
    std::ignore =
        actors.add<replay>("replay", std::move(states.buffer), weight_version(0), *log, counters);
    std::ignore = actors.add<still_trainer>("trainer", policy_bytes, *log);
    std::ignore = actors.add<busy_origin>("rollout", ledger, *log);
    const std::string bundles = directory_path + "/checkpoints";
    ensure(storage->make_directory(bundles).has_value(), "the directory is fresh");
    bundle_store_options options;
    options.checkpoint_directory = bundles;
    options.run_id = "benchmark";
    options.life = life;
    options.retention.keep_top_k = 2;
    options.terms = terms;
    checkpoint_services services;
    services.store = std::make_shared<bundle_store>(*storage, directory, options,
                                                    std::vector<dataplane::bundle>(), std::nullopt);
    services.log = log;
    services.counters = counters;
    services.record = [queue = published](const checkpoint_record& one) {
      queue->push(one.published);
    };
    keeper = actors.add<checkpoint>("checkpoint", checkpoint_options(),
                                    checkpoint_peers{origin_names, owner_names, {}}, services);
    const auto started = actors.start();
    ensure(started.has_value(), "the graph starts");
    for (const std::string& name : origin_names)
      peers.origins.push_back(actors.find<origin_protocol>(name));
    for (const std::string& name : owner_names)
      peers.owners.push_back(actors.find<owner_protocol>(name));
  }

  std::string directory_path;
  std::unique_ptr<dataplane::disk> storage;
  std::shared_ptr<dataplane::run_directory> directory;
  incarnation life;
  std::shared_ptr<event_log> log;
  world env;
  graph actors;
  handle<checkpoint_protocol> keeper;
  std::shared_ptr<published_queue> published = std::make_shared<published_queue>();
  barrier_handles peers;
  std::uint64_t payload_bytes = 0;
};

checkpoint_graph::checkpoint_graph(checkpoint_graph_options options, std::string directory)
    : parts_(std::make_unique<parts>(options, std::move(directory))),
      payload_mib_(static_cast<double>(parts_->payload_bytes) / (1 << 20)) {}

checkpoint_graph::~checkpoint_graph() {
  std::ignore = parts_->actors.stop();
  const std::string path = parts_->directory_path;
  parts_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string checkpoint_graph::bundles() const {
  return parts_->directory_path + "/checkpoints";
}

CheckpointPublishedT checkpoint_graph::publish() {
  ensure(parts_->actors.run_blocking(&ask_for_save, parts_->keeper).has_value(), "the graph runs");
  return parts_->published->pop();
}

double checkpoint_graph::hold_ns() {
  return need(parts_->actors.run_blocking(&one_barrier, parts_->peers, next_epoch_++));
}

} // namespace weir::benchmarks
