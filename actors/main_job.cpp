#include "actors/main_job.hpp"

#include "actors/dataloader/dataloader.hpp"
#include "actors/replay/replay.hpp"
#include "actors/replay/rollout_rows.hpp"
#include "actors/sampler/sampler.hpp"
#include "dataplane/append_log.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace weir {

namespace {

/// The states of all owners, fresh or restored.
struct owner_states {
  dataloader_state loader;
  sampler_state sampler;
  replay_contents replay;
  trainer_image trainer;
  std::vector<group_event> restamped = {}; ///< In the sampler's ledger, dropped groups first.
};

/// Shadow mode: the rows were verified, and go. Their ids are not used again.
void leave_rows(dataplane::store& rows, const dataplane::snapshot& restored) {
  for (const auto& partition : restored.inventory()) {
    std::vector<row_id> committed;
    std::vector<row_id> staged;
    for (const dataplane::row_summary& row : partition.rows)
      (row.state == dataplane::row_state::committed ? committed : staged).push_back(row.id);
    const auto cleared = rows.clear(partition.name, committed);
    const auto dropped = rows.drop_staged(partition.name, staged);
    ensure(cleared.has_value() && dropped.has_value(), "rows of a snapshot are in the store");
  }
}

/// The policy of the bundle, and of the versions before it what pinned groups may name: as many as
/// the bundle has, without a gap.
result<trainer_image> restore_trainer(const main_job& job, const restored_states& states) {
  auto policy = job.read_policy(states);
  if (!policy) return failure(std::move(policy.error()));
  const std::uint64_t step = states.bundle.content.step;
  trainer_image image{step, weight_version(step), std::move(*policy), {}};
  std::uint64_t expected = step;
  for (const weight_version version : kept_versions(states)) { // The newest first.
    if (version.value + 1 != expected || step - version.value > job.trainer.earlier_versions) break;
    auto earlier = job.read_version(states, version);
    if (!earlier) return failure(std::move(earlier.error()));
    image.earlier.insert(image.earlier.begin(), {version, std::move(*earlier)});
    expected = version.value;
  }
  return image;
}

result<owner_states> build_states(const main_job& job, const begun_life& begun) {
  if (job.rollout.pins && !job.policy->stamps())
    return failure(errc::invalid_argument,
                   "async_rl.weight_update (pinned) needs a sampler that stamps groups, such as "
                   "in_order; async_rl.sampler.name is " +
                       std::string(job.policy->name()));
  owner_states built{
      dataloader_state(*job.records, job.loader),
      sampler_state(job.policy, job.rollout.limits.groups_per_step, job.rollout.failures),
      replay_contents{replay_state(job.policy, job.replay),
                      std::make_shared<dataplane::store>(job.rows),
                      {},
                      std::make_shared<write_terms>(job.writing)},
      trainer_image{0, weight_version(0), job.first_policy, {}}};
  if (!begun.states) return built;
  const restored_states& states = *begun.states;
  if (auto loaded = built.loader.load(states.cursor); !loaded)
    return failure(std::move(loaded.error()));
  if (auto loaded = built.sampler.load(states.sampler); !loaded)
    return failure(std::move(loaded.error()));
  if (auto loaded = built.replay.index.load(states.replay); !loaded)
    return failure(std::move(loaded.error()));
  built.replay.rows->restore(states.rows);
  if (states.changes.buffer_left) {
    leave_rows(*built.replay.rows, states.rows);
  } else {
    for (const auto& rows : {states.dropped.rows, states.changes.rows}) {
      if (rows.empty()) continue;
      auto cleared = built.replay.rows->clear(rollout_partition, rows);
      if (!cleared) return failure(std::move(cleared.error()));
    }
  }
  built.replay.terms->wrote(states.files);
  built.replay.restamped = states.changes.replay_events;
  built.restamped = states.dropped.ledger_events;
  built.restamped.insert(built.restamped.end(), states.changes.ledger_events.begin(),
                         states.changes.ledger_events.end());
  auto trained = restore_trainer(job, states);
  if (!trained) return failure(std::move(trained.error()));
  built.trainer = std::move(*trained);
  return built;
}

/// First lines of a life in the audit log.
void announce(event_stream& program, const begun_life& begun, const generation_terms& terms) {
  program.append(incarnation_started_event{begun.run_id, terms});
  if (begun.states)
    program.append(restored_event{dataplane::to_string(begun.states->bundle.name),
                                  begun.states->bundle.content.epoch});
}

std::shared_ptr<bundle_store> make_store(const main_job& job, world& env, const begun_life& begun,
                                         std::shared_ptr<dataplane::run_directory> directory,
                                         std::shared_ptr<write_terms> terms) {
  bundle_store_options options = job.bundles;
  options.terms = std::move(terms);
  options.run_id = begun.run_id;
  options.life = begun.life;
  return std::make_shared<bundle_store>(
      env.storage(), std::move(directory), std::move(options), begun.known,
      begun.states ? std::optional(begun.states->bundle) : std::nullopt);
}

/// That generators can be given.
weight_version oldest_version(const trainer_image& image) {
  return image.earlier.empty() ? image.version : image.earlier.front().version;
}

/// What askers are given of an actor.
template <class Protocol>
handle<Protocol> relayed(const main_job_relays::relay<Protocol>& relay, graph& actors,
                         handle<Protocol> behind) {
  return relay ? relay(actors, std::move(behind)) : behind;
}

/// The actors without durable state.
struct workers {
  std::vector<handle<generator_protocol>> generators;
  std::vector<handle<environment_protocol>> environments;
};

result<workers> add_workers(const main_job& job, graph& actors,
                            const std::shared_ptr<run_counters>& counters) {
  workers added;
  // No cut waits for what they hold: one that fails is made anew, in place (rule 8).
  const auto group = actors.supervise("environments");
  for (std::uint64_t i = 0; i < job.environments; ++i) {
    auto how = job.parts.environment();
    if (!how) return failure(std::move(how.error()));
    const std::string name = "environment-" + std::to_string(i);
    if (const auto* program = std::get_if<command_options>(&*how))
      added.environments.push_back(actors.add<command_environment>(group, name, *program));
    else
      added.environments.push_back(
          actors.add<environment>(group, name, std::get<scorer>(std::move(*how))));
  }
  const auto generating = actors.supervise("generators", job.generator_restarts);
  for (std::uint64_t i = 0; i < job.generators; ++i) {
    auto made = job.parts.generator(actors, generating, "generator-" + std::to_string(i), counters);
    if (!made) return failure(std::move(made.error()));
    added.generators.push_back(*made);
  }
  return added;
}

/// Empty when there is nothing to validate on. No cut waits for it: it is restarted in place.
handle<validation_protocol> add_validation(const main_job& job, graph& actors, const workers& hands,
                                           const handle<observer_protocol>& watcher) {
  if (!job.held_out) return {};
  const validation_peers peers{hands.generators, hands.environments, watcher};
  return actors.add<validation>(actors.supervise("validations"), "validation", job.validation,
                                peers, job.held_out, job.codec);
}

/// Who is given whose handle. Checkpoint finds origins and owners by name.
result<void> add_actors(const main_job& job, const begun_life& begun, owner_states states,
                        composed_life& life, std::shared_ptr<bundle_store> store) {
  graph& actors = *life.actors;
  const auto counters = std::make_shared<run_counters>();
  if (begun.states) counters->groups_reissued = begun.states->plan.groups_reissued;
  handle<observer_protocol> watcher;
  if (job.parts.observer) watcher = job.parts.observer(actors, counters);
  auto loader = actors.add<dataloader>("dataloader", std::move(states.loader), *life.log);
  loader = relayed(job.relays.loader, actors, loader);
  auto ledger =
      actors.add<sampler>("sampler", std::move(states.sampler), *life.log, states.restamped);
  ledger = relayed(job.relays.sampler, actors, ledger);
  auto buffer = actors.add<replay>("replay", std::move(states.replay), states.trainer.version,
                                   *life.log, counters);
  buffer = relayed(job.relays.replay, actors, buffer);
  auto hands = add_workers(job, actors, counters);
  if (!hands) return failure(std::move(hands.error()));
  for (auto& generator : hands->generators)
    generator = relayed(job.relays.generator, actors, generator);
  for (auto& one : hands->environments)
    one = relayed(job.relays.environment, actors, one);
  checkpoint_options saving = job.checkpoint;
  saving.restored = begun.states.has_value();
  const checkpoint_services services{std::move(store), life.log, counters, job.record_checkpoint,
                                     job.record_failed_checkpoint};
  const checkpoint_peers barrier{
      {"rollout", "trainer", "replay"}, {"dataloader", "sampler", "replay", "trainer"}, watcher};
  // Gates open by themselves, and what counts is published: rule 6 lets it die.
  const auto saver = actors.supervise("checkpoints", job.checkpoint_restarts);
  life.checkpoint = actors.add<checkpoint>(saver, "checkpoint", saving, barrier, services);
  const auto held_out = add_validation(job, actors, *hands, watcher);
  auto device = job.parts.trainer_device();
  if (!device) return failure(std::move(device.error()));
  trainer_options training = job.trainer;
  // A restored group may be READY before an earlier one has a slot again: a chunk of a step could
  // then begin with it. A whole step cannot.
  if (job.replay.ready_prefix_only) training.groups_per_chunk_min = whole_step;
  actors.add<trainer>("trainer", training,
                      trainer_peers{ledger, buffer, life.checkpoint, hands->generators,
                                    hands->environments, watcher, held_out},
                      trainer_engine{job.learning, std::move(*device)},
                      trainer_state(states.trainer, job.trainer.earlier_versions),
                      begun.states.has_value(), *life.log);
  rollout_options rolling = job.rollout;
  if (rolling.pins) rolling.pins->oldest = oldest_version(states.trainer).value;
  actors.add<rollout>("rollout", rolling,
                      rollout_peers{loader, ledger, buffer, hands->generators, hands->environments},
                      job.codec, *life.log, counters);
  return {};
}

result<composed_life> compose(const main_job& job, world& env, const begun_life& begun,
                              std::shared_ptr<dataplane::run_directory> directory,
                              owner_states states, std::shared_ptr<event_log> log) {
  composed_life life{log,
                     event_stream(*log, "program"),
                     states.replay.rows,
                     std::make_unique<graph>(env, graph_options{.life = begun.life}),
                     {}};
  generation_terms terms{job.policy->window(), {}};
  if (job.rollout.pins) terms.oldest_pin = oldest_version(states.trainer);
  announce(life.program, begun, terms);
  auto store = make_store(job, env, begun, std::move(directory), states.replay.terms);
  if (auto added = add_actors(job, begun, std::move(states), life, std::move(store)); !added)
    return failure(std::move(added.error()));
  return life;
}

} // namespace

result<void> check_states(const main_job& job, const restored_states& states) {
  dataloader_state loader(*job.records, job.loader);
  if (auto loaded = loader.load(states.cursor); !loaded) return loaded;
  for (const ledger_record& record : in_dispatch_order(states.sampler.ledger)) {
    if (auto found = loader.fetch(record.sample, record.hash); !found)
      return failure(std::move(found.error()));
  }
  std::optional<error> changed;
  states.sampler.reserve.for_each([&](std::uint64_t, const auto& spare) {
    auto found = loader.fetch(spare->sample, spare->hash);
    if (!found) changed = std::move(found.error());
    return !changed;
  });
  if (changed) return failure(std::move(*changed));
  if (auto read = restore_trainer(job, states); !read) return failure(std::move(read.error()));
  return {};
}

prompt_lookup prompt_lookup_of(const main_job& job) {
  const auto loader = std::make_shared<const dataloader_state>(*job.records, job.loader);
  return [loader](group_id group, sample_id sample) -> result<group_reservation> {
    auto prompt = loader->fetch(sample, std::nullopt);
    if (!prompt) return failure(std::move(prompt.error()));
    group_reservation found;
    found.group = group;
    found.sample = sample;
    found.hash = prompt->hash;
    found.task = std::move(prompt->task);
    return found;
  };
}

result<composed_life> compose_life(const main_job& job, world& env, const begun_life& begun,
                                   std::shared_ptr<dataplane::run_directory> directory) {
  auto states = build_states(job, begun);
  if (!states) return failure(std::move(states.error()));
  auto file = dataplane::append_log::open(env.storage(), directory->events_path(begun.life));
  if (!file) return failure(std::move(file.error()));
  auto log = std::make_shared<event_log>(begun.life, std::move(*file));
  return compose(job, env, begun, std::move(directory), std::move(*states), std::move(log));
}

result<composed_life> sketch_life(const main_job& job, world& env) {
  begun_life fresh;
  fresh.life = incarnation(1);
  auto states = build_states(job, fresh);
  if (!states) return failure(std::move(states.error()));
  auto log = std::make_shared<event_log>(fresh.life);
  return compose(job, env, fresh, nullptr, std::move(*states), std::move(log));
}

result<void> end_life(composed_life& life, finish_reason reason) {
  life.program.append(run_finished_event{reason});
  return life.log->sync();
}

} // namespace weir
