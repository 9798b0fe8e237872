#include "tests/recovery/warm_run.hpp"

#include "actors/dataloader/dataloader_section.hpp"
#include "actors/replay/replay_section.hpp"
#include "actors/replay/rollout_rows.hpp"
#include "tests/simulation/scripted_tokens.hpp"
#include "tests/simulation/tiny_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

namespace weir::test {

namespace {

constexpr std::uint64_t warm_version = 5;
constexpr std::int64_t warm_dispatch_index = 4;

dataplane::append_log open_log(dataplane::disk& storage, const std::string& path) {
  auto file = dataplane::append_log::open(storage, path);
  REQUIRE(file.has_value());
  return std::move(*file);
}

template <class T>
void take(std::vector<T> items, unfinished_bundle& bundle) {
  for (T& item : items)
    REQUIRE(bundle.writer.add(std::move(item)).has_value());
}

} // namespace

sim::run_plan matrix_plan(const std::string& sampler, std::uint64_t window) {
  sim::run_plan plan;
  plan.sampler = {sampler, window};
  plan.groups_per_step = matrix_groups_per_step;
  plan.siblings = matrix_siblings;
  plan.dataset = matrix_dataset;
  plan.buffered_max = 64;
  plan.inflight_max = 64;
  return plan;
}

warm_run::warm_run(dataplane::disk& storage, const main_job& job)
    : storage_(storage), job_(job), loader_(*job.records, job.loader),
      ledger_(job.policy, matrix_groups_per_step, job.rollout.failures),
      buffer_(job.policy, job.replay), rows_(job.rows) {
  auto held = dataplane::run_directory::acquire(storage, sim::run_directory_path, {});
  REQUIRE(held.has_value());
  directory_ = std::make_shared<dataplane::run_directory>(std::move(*held));
  REQUIRE(dataplane::make_directories(storage, sim::checkpoint_directory_path).has_value());
  const auto life = directory_->raise_incarnation({});
  REQUIRE(life.has_value());
  life_ = *life;
  log_ = std::make_unique<event_log>(life_, open_log(storage, directory_->events_path(life_)));
  const auto stream = [this](const char* owner) {
    return std::make_unique<event_stream>(*log_, owner);
  };
  program_ = stream("program");
  loading_ = stream("dataloader");
  sampling_ = stream("sampler");
  buffering_ = stream("replay");
  training_ = stream("trainer");
  keeping_ = stream("checkpoint");
  load_warm_state();
}

/// Step 0 and dispatch batch 0 are given; all that follows happens.
void warm_run::load_warm_state() {
  program_->append(incarnation_started_event{"run"});
  training_->append(step_finished_event{0, weight_version(1)});
  sampler_image warm = ledger_.capture();
  warm.dispatch_index = 0;
  warm.live_version = weight_version(1);
  REQUIRE(ledger_.load(warm).has_value());
  sim::tiny_policy first;
  first.step = 1;
  trainer_ = {1, weight_version(1), sim::make_policy(first)};
  weights_.emplace(1, first.bits);
  const std::uint64_t lag = job_.policy->window();
  const auto dispatched = [this] { return ledger_.capture().dispatch_index; };
  while (true) {
    // As ahead as a gate would let it, with every sampler.
    while (dispatched() < warm_dispatch_index &&
           dispatched() < static_cast<std::int64_t>(version() + lag)) {
      const std::uint64_t next = loader_.next_group().value;
      next_batch();
      for (std::uint64_t group = next; group < next + matrix_groups_per_step; ++group)
        done(group, version());
    }
    if (version() == warm_version - lag) break;
    train();
  }
  REQUIRE(dispatched() == warm_dispatch_index);
}

std::set<group_id> warm_run::required() const {
  std::set<group_id> groups;
  for (std::uint64_t group = 0; group < loader_.next_group().value; ++group)
    groups.insert(group_id(group));
  for (const group_id group : trained_)
    groups.erase(group);
  for (const group_id group : evicted_)
    groups.erase(group);
  return groups;
}

void warm_run::hand_out() {
  const auto prompts = loader_.peek(matrix_groups_per_step);
  REQUIRE(prompts.size() == matrix_groups_per_step);
  REQUIRE(loader_.reserve(prompts.front().group, prompts.size()).has_value());
  for (const handed_out_event& part :
       handed_out_parts(loader_, prompts.front().group, prompts.size()))
    loading_->append(part);
  std::vector<group_reservation> groups;
  for (const prompt_record& prompt : prompts)
    groups.push_back({prompt.group, prompt.sample, prompt.hash, prompt.task, matrix_siblings});
  REQUIRE(ledger_.reserve(ledger_.next_admission(), groups, *sampling_, 1).has_value());
}

void warm_run::next_batch() {
  const std::uint64_t admission = ledger_.next_admission();
  hand_out();
  const auto outcome = ledger_.admit(admission, *sampling_, 2);
  REQUIRE(outcome.has_value());
  REQUIRE(outcome->admitted);
}

void warm_run::start(group_id group) {
  const ledger_record* record = ledger_.capture().find(group);
  REQUIRE(record != nullptr);
  const start_request request{.group = group,
                              .dispatch_index = record->dispatch_index,
                              .target_step = record->target_step,
                              .admission_version = record->admission_version,
                              .window = record->window};
  REQUIRE(buffer_.request_start(request).has_value());
  std::ignore = buffer_.grant_permits();
  REQUIRE(buffer_.started(group));
}

StageGroupT warm_run::rollout_of(const ledger_record& record, std::uint64_t version) const {
  StageGroupT form;
  form.group = record.group.value;
  form.content_attempt = record.content_attempt;
  for (std::uint32_t sibling = 0; sibling < record.siblings; ++sibling) {
    auto row = std::make_unique<SiblingRolloutT>();
    row->tokens = {1, 2};
    row->prompt_length = 2;
    const sim::token_key key{.run_seed = sim::run_plan().seed,
                             .sample = record.sample,
                             .content_attempt = record.content_attempt,
                             .sibling = sibling,
                             .index = 0};
    // Versions before the first were made by weights that nobody has.
    const auto weights = weights_.find(version);
    row->tokens.push_back(
        sim::scripted_token(key, weights != weights_.end() ? weights->second : version));
    row->logprobs.push_back(-1.0F);
    row->versions.push_back(version);
    form.siblings.push_back(std::move(row));
  }
  return form;
}

void warm_run::stage(group_id group, std::uint64_t version) {
  start(group);
  const ledger_record& record = *ledger_.capture().find(group);
  const auto form = pack(rollout_of(record, version));
  const auto staged = rollout_rows::of(*form);
  REQUIRE(staged.has_value());
  const auto rows = rows_.stage(rollout_partition, staged->rows());
  REQUIRE(rows.has_value());
  REQUIRE(buffer_
              .stage({.group = group,
                      .content_attempt = record.content_attempt,
                      .start_version = weight_version(version),
                      .end_version = weight_version(version),
                      .rows = *rows})
              .has_value());
}

void warm_run::half(std::uint64_t group, std::uint64_t version) {
  stage(group_id(group), version);
}

void warm_run::done(std::uint64_t group, std::uint64_t version) {
  stage(group_id(group), version);
  const ledger_record prompt = *ledger_.capture().find(group_id(group));
  const auto released = ledger_.release(group_id(group), 0);
  REQUIRE(released.has_value());
  REQUIRE(released->has_value());
  const release_outcome& stamp = **released;
  const commit_request request{.group = group_id(group),
                               .content_attempt = 0,
                               .sample = stamp.sample,
                               .dispatch_index = stamp.dispatch_index,
                               .target_step = stamp.target_step,
                               // A group far behind was admitted as long ago.
                               .admission_version =
                                   std::min(stamp.admission_version, weight_version(version)),
                               .window = stamp.window,
                               .hash = prompt.hash,
                               .task = prompt.task};
  const auto rows = buffer_.commit(request, *buffering_, 3);
  REQUIRE(rows.has_value());
  REQUIRE(rows_.commit(rollout_partition, *rows).has_value());
}

void warm_run::evict_on_purpose(std::uint64_t group) {
  start(group_id(group));
  const std::vector<group_id> groups = {group_id(group)};
  const auto dropped = ledger_.drop(groups, drop_reason::stale, *sampling_, 4);
  REQUIRE(dropped.has_value());
  REQUIRE(*dropped == groups);
  std::ignore = buffer_.stop(group_id(group));
  evicted_.insert(group_id(group));
}

void warm_run::train_to(std::uint64_t wanted) {
  while (version() < wanted)
    train();
}

void warm_run::train() {
  const std::uint64_t step = trainer_.step;
  const std::uint64_t wanted = ledger_.target(step);
  const auto outlook = buffer_.outlook(step, trainer_.version, wanted);
  REQUIRE(outlook.has_value());
  const bool is_whole = outlook->prospect == batch_prospect::ready;
  REQUIRE(outlook->available > 0);
  if (!is_whole) unclaimed_.emplace(buffer_);
  const auto batch = buffer_.claim(step, trainer_.version, outlook->available, *buffering_, 5);
  REQUIRE(batch.has_value());
  REQUIRE(batch->size() == outlook->available);
  if (is_whole) finish_step(step, *batch);
}

void warm_run::finish_step(std::uint64_t step, const std::vector<replay_record>& batch) {
  std::vector<ClaimedGroupT> groups;
  for (const replay_record& record : batch) {
    const auto rows = rows_.get(rollout_partition, record.rows, rollout_fields());
    REQUIRE(rows.has_value());
    ClaimedGroupT& group = groups.emplace_back();
    group.group = record.group.value;
    for (std::size_t row = 0; row < record.rows.size(); ++row)
      group.siblings.push_back(std::make_unique<SiblingRolloutT>(sibling_of(*rows, row)));
    trained_.insert(record.group);
  }
  auto learned = job_.learning->learn(trainer_.policy, groups);
  REQUIRE(learned.has_value());
  const cleared_groups cleared = buffer_.consume(step, *buffering_, 6);
  REQUIRE(rows_.clear(rollout_partition, cleared.rows).has_value());
  ledger_.settle(step);
  trainer_ = {step + 1, trainer_.version.next(), std::move(learned->next)};
  weights_.emplace(step + 1, sim::tiny(trainer_.policy).bits);
  training_->append(step_finished_event{step, trainer_.version});
  REQUIRE(ledger_.version_live(trainer_.version));
}

cut_facts warm_run::facts() const {
  cut_facts cut;
  cut.epoch = {.incarnation = life_.value, .life = 1, .number = 1};
  for (const auto& stream : {loading_.get(), sampling_.get(), buffering_.get(), training_.get()})
    cut.owners.push_back({stream->owner(), stream->newest()});
  cut.tallies.handed_out = loader_.handed_out();
  add_tallies(ledger_.capture(), cut.tallies);
  add_tallies(buffer_.capture(), cut.tallies);
  cut.trainer_step = static_cast<std::int64_t>(trainer_.step);
  return cut;
}

void warm_run::publish() {
  bundle_store_options options = job_.bundles;
  options.run_id = "run";
  options.life = life_;
  bundle_store store(storage_, directory_, options, {}, std::nullopt);
  const cut_facts cut = facts();
  keeping_->append(cut_event{cut.epoch, cut.owners, cut.tallies});
  const auto bundle = store.begin(cut, std::nullopt);
  REQUIRE(bundle.has_value());
  write_sections(**bundle);
  REQUIRE(log_->sync().has_value());
  const auto published = store.publish(**bundle);
  REQUIRE(published.has_value());
  keeping_->append(published_event{published->name, cut.epoch, published->parent});
}

void warm_run::write_sections(unfinished_bundle& bundle) {
  const section_target target{storage_, bundle.writer.directory(), bundle.cut.epoch, {}};
  const auto one = [&](const char* path, const std::vector<std::byte>& payload) {
    auto written = write_one_section(target, path, payload);
    REQUIRE(written.has_value());
    take(std::move(*written), bundle);
  };
  one("train_dataloader.fb", encode(loader_.capture(), target.epoch));
  one("rollout_recovery.fb", encode(ledger_.capture(), target.epoch));
  rows_at_cut_ = rows_.capture();
  write_terms none;
  auto buffered = write_replay_section(target, buffer_.capture(), *rows_at_cut_, none);
  REQUIRE(buffered.has_value());
  take(std::move(*buffered), bundle);
  auto policy = job_.learning->write(trainer_.policy, target);
  REQUIRE(policy.has_value());
  take(std::move(*policy), bundle);
}

} // namespace weir::test
