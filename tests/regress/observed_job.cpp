#include "tests/regress/observed_job.hpp"

#include "actors/dataloader/dataloader_section.hpp"
#include "actors/fault/fault.hpp"
#include "actors/replay/replay_section.hpp"
#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "tests/simulation/tiny_job.hpp"
#include "tests/simulation/tiny_learner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

namespace weir::test {

namespace {

/// Passes everything on, and remembers what was learned from.
class recording_learner final : public learner {
public:
  recording_learner(std::shared_ptr<learner> inner, std::shared_ptr<training_record> record)
      : inner_(std::move(inner)), record_(std::move(record)) {}

  result<void> begin_step(const policy_ptr& before) override {
    step_ = sim::tiny(before).step;
    groups_.clear();
    return inner_->begin_step(before);
  }
  result<void> add_groups(const std::vector<ClaimedGroupT>& groups) override {
    for (const ClaimedGroupT& group : groups) {
      trained_group& one = groups_.emplace_back();
      one.group = group_id(group.group);
      one.start_version = group.start_version;
      for (const auto& sibling : group.siblings) {
        one.lengths.push_back(sibling->logprobs.size());
        one.versions.push_back(sibling->versions);
      }
      one.prompt_tokens = group.siblings.front()->prompt_length;
    }
    return inner_->add_groups(groups);
  }
  result<learned> finish_step() override {
    record_->steps[step_] = groups_;
    return inner_->finish_step();
  }
  result<learned> warm_up(const policy_ptr& before, std::uint64_t step) override {
    return inner_->warm_up(before, step);
  }
  result<std::vector<warmup_sample>> sample(const policy_ptr& policy) override {
    return inner_->sample(policy);
  }
  policy_ptr start_of_job(const policy_ptr& warmed_up) override {
    return inner_->start_of_job(warmed_up);
  }
  [[nodiscard]] attachment publish(const policy_ptr& policy) const override {
    return inner_->publish(policy);
  }
  [[nodiscard]] result<std::vector<dataplane::finished_section>>
  write(const policy_ptr& policy, const section_target& target) const override {
    return inner_->write(policy, target);
  }
  [[nodiscard]] result<std::vector<dataplane::finished_section>>
  write_version(const policy_ptr& policy, weight_version version,
                const section_target& target) const override {
    return inner_->write_version(policy, version, target);
  }

private:
  std::shared_ptr<learner> inner_;
  std::shared_ptr<training_record> record_;
  std::uint64_t step_ = 0; ///< The open one, and its groups.
  std::vector<trained_group> groups_;
};

void add(dataplane::bundle_writer& writer,
         result<std::vector<dataplane::finished_section>> sections) {
  REQUIRE(sections.has_value());
  for (dataplane::finished_section& section : *sections)
    REQUIRE(writer.add(std::move(section)).has_value());
}

void write_parts(dataplane::bundle_writer& writer, const section_target& target,
                 const bundle_parts& parts) {
  const auto one = [&](const char* path, const std::vector<std::byte>& payload) {
    add(writer, write_one_section(target, path, payload));
  };
  one("train_dataloader.fb", encode(parts.cursor, target.epoch));
  one("rollout_recovery.fb", encode(parts.ledger, target.epoch));
  write_terms none;
  add(writer, write_replay_section(target, parts.index, parts.rows, none));
}

} // namespace

std::vector<group_id> training_record::groups() const {
  std::vector<group_id> all;
  for (const auto& [step, batch] : steps)
    for (const trained_group& one : batch)
      all.push_back(one.group);
  std::ranges::sort(all);
  return all;
}

std::vector<std::uint64_t> training_record::lengths() const {
  std::vector<std::uint64_t> all;
  for (const auto& [step, batch] : steps)
    for (const trained_group& one : batch)
      all.insert(all.end(), one.lengths.begin(), one.lengths.end());
  return all;
}

void record_training(main_job& job, std::shared_ptr<training_record> record) {
  job.learning = std::make_shared<recording_learner>(std::move(job.learning), std::move(record));
}

void put_before_generators(main_job& job, std::function<fault_plan()> make_plan) {
  job.parts.generator =
      [inner = std::move(job.parts.generator), make_plan = std::move(make_plan)](
          graph& actors, const supervised_group& group, const std::string& name,
          std::shared_ptr<run_counters> counters) -> result<handle<generator_protocol>> {
    auto behind = inner(actors, group, name, std::move(counters));
    if (!behind) return behind;
    return actors.add<fault<generator_protocol>>("before-" + name, *behind, make_plan());
  };
}

void hear_generations(main_job& job, std::function<void()> begin,
                      std::function<void(const GenerateGroup&)> listen) {
  put_before_generators(job, [begin = std::move(begin), listen = std::move(listen)] {
    begin();
    const auto told = [listen](const GenerateGroup& request) {
      listen(request);
      return false;
    };
    return fault_plan{on<GenerateGroup>(told).drop()};
  });
}

std::optional<restored_states> load_newest(dataplane::disk& storage,
                                           const restore_request& request) {
  const auto survey = dataplane::survey_bundles(storage, request.checkpoint_directory);
  REQUIRE(survey.has_value());
  const auto newest =
      dataplane::newest_valid_bundle(storage, request.checkpoint_directory, *survey);
  REQUIRE(newest.has_value());
  if (!*newest) return std::nullopt;
  auto states = load_bundle(storage, request, (*newest)->chosen);
  REQUIRE(states.has_value());
  return std::move(*states);
}

void plant(dataplane::disk& storage, const restore_request& request,
           const std::function<void(bundle_parts&)>& edit) {
  const std::string& directory = request.checkpoint_directory;
  const auto states = load_newest(storage, request);
  if (!states) return;
  const dataplane::bundle& chosen = states->bundle;
  bundle_parts parts{states->cursor, states->sampler, states->replay, states->rows};
  edit(parts);

  auto writer = dataplane::bundle_writer::begin(storage, directory, chosen.content.epoch);
  REQUIRE(writer.has_value());
  const section_target target{storage, writer->directory(), chosen.content.epoch, {}};
  write_parts(*writer, target, parts);
  for (const auto& [path, bytes] : states->policy) {
    auto file = writer->create(path);
    REQUIRE(file.has_value());
    REQUIRE(file->append(bytes).has_value());
    auto finished = file->finish();
    REQUIRE(finished.has_value());
    REQUIRE(writer->add(std::move(*finished)).has_value());
  }
  const std::vector<dataplane::bundle_name> replaced = {chosen.name};
  REQUIRE(dataplane::retire_bundles(storage, directory, replaced).has_value());
  dataplane::publication what;
  what.run_id = chosen.content.run_id;
  what.step = chosen.content.step;
  what.parent = chosen.content.parent;
  what.owners = chosen.content.owners;
  what.still_current = [] { return result<void>(); };
  REQUIRE(writer->publish(std::move(what)).has_value());
}

small_run::small_run(sim::run_plan plan)
    : plan_(std::move(plan)), lives_(plan_, {.adjust = [this](main_job& job) { change(job); },
                                             .after_crash =
                                                 [this](crash_disk& disk) {
                                                   if (after_crash) after_crash(disk);
                                                 }}) {}

void small_run::change(main_job& job) {
  record_training(job, trained_);
  job.record_checkpoint = [this](const checkpoint_record& record) {
    if (record.published.bundle == dies_after) disk().die();
  };
  if (adjust) adjust(job);
}

result<void> small_run::run(const std::vector<sim::crash_point>& crashes) {
  return lives_.run(crashes);
}

void small_run::run_clean(const std::vector<sim::crash_point>& crashes) {
  const auto ended = run(crashes);
  INFO((ended ? std::string() : to_string(ended.error())));
  REQUIRE(ended.has_value());
}

sim::run_report small_run::report() const {
  sim::run_report report;
  lives_.report_to(report);
  return report;
}

main_job small_run::job() {
  main_job job = sim::tiny_job(plan_, plan_.sampler, unused_, nullptr);
  change(job);
  return job;
}

restore_request small_run::request() {
  return sim::request_of(plan_, job());
}

bool mentions(const result<void>& outcome, std::string_view part) {
  const bool found = !outcome && to_string(outcome.error()).find(part) != std::string::npos;
  if (!found) MESSAGE((outcome ? std::string("no error") : to_string(outcome.error())));
  return found;
}

std::vector<group_id> all_groups(std::uint64_t count) {
  std::vector<group_id> groups;
  for (std::uint64_t group = 0; group < count; ++group)
    groups.emplace_back(group);
  return groups;
}

} // namespace weir::test
