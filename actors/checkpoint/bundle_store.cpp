#include "actors/checkpoint/bundle_store.hpp"

#include "actors/runtime/failpoint.hpp"
#include "dataplane/spare_tree.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>

namespace weir {

namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

/// `training_info.json`, for people; nothing reads it back.
std::string training_info(const cut_facts& cut, const bundle_store_options& options,
                          std::optional<double> metric) {
  std::string text = "{\n  \"run_id\": \"" + options.run_id + "\",\n";
  text += "  \"epoch\": \"" + to_string(cut.epoch) + "\",\n";
  text += "  \"step\": " + number(cut.trainer_step) + ",\n";
  text += "  \"weight_version\": " + number(cut.trainer_step) + ",\n";
  if (metric && std::isfinite(*metric))
    text += "  \"" + options.metric_name + "\": " + std::to_string(*metric) + ",\n";
  text += "  \"handed_out\": " + std::to_string(cut.tallies.handed_out.count) + ",\n";
  for (std::size_t state = 0; state < group_states; ++state) {
    if (static_cast<group_state>(state) == group_state::none) continue;
    text += "  \"" + std::string(to_string(static_cast<group_state>(state))) +
            "\": " + std::to_string(cut.tallies.in_state[state].count) + ",\n";
  }
  text += "  \"hold_us\": " + number(cut.timings.hold_ns / 1000) + ",\n";
  text += "  \"drain_us\": " + number(cut.timings.drain_ns / 1000) + ",\n";
  text += "  \"capture_us\": " + number(cut.timings.capture_ns / 1000) + "\n}\n";
  return text;
}

} // namespace

bundle_store::bundle_store(dataplane::disk& storage,
                           std::shared_ptr<dataplane::run_directory> directory,
                           bundle_store_options options, std::vector<dataplane::bundle> known,
                           std::optional<dataplane::bundle> restored)
    : storage_(storage), directory_(std::move(directory)), options_(std::move(options)),
      known_(std::move(known)), newest_(std::move(restored)) {
  tell_terms();
}

bundle_store::~bundle_store() {
  std::ignore = dataplane::remove_spare_tree(storage_, options_.checkpoint_directory);
}

/// What is being written links files of the newest, which stays whatever the policy says.
void bundle_store::tell_terms() const {
  if (!options_.terms || !newest_) return;
  options_.terms->published(
      dataplane::join(options_.checkpoint_directory, dataplane::to_string(newest_->name)),
      newest_->content.epoch);
}

result<std::shared_ptr<unfinished_bundle>> bundle_store::begin(const cut_facts& cut,
                                                               std::optional<double> metric) {
  const std::lock_guard guard(one_call_);
  if (auto fine = check_in_time(cut.epoch); !fine) return failure(std::move(fine.error()));
  if (unfinished_ != nullptr) throw_away(*unfinished_);
  auto writer = dataplane::bundle_writer::begin(storage_, options_.checkpoint_directory, cut.epoch);
  if (!writer) return failure(std::move(writer.error()));
  auto bundle = std::make_shared<unfinished_bundle>(
      unfinished_bundle{std::move(*writer), cut, metric, {}, std::nullopt});
  unfinished_ = bundle;
  const auto* const twin = same_step(static_cast<std::uint64_t>(cut.trainer_step));
  if (twin == nullptr) return bundle;
  auto linked = bundle->writer.link_folder(*twin, "policy");
  if (!linked) {
    throw_away(*bundle);
    return failure(std::move(linked.error()));
  }
  bundle->policy_from = dataplane::to_string(twin->name);
  return bundle;
}

/// A bundle of this life's own history at that step: its policy is the same, bit for bit.
const dataplane::bundle* bundle_store::same_step(std::uint64_t step) const {
  if (!newest_ || newest_->content.step != step) return nullptr;
  return &*newest_;
}

result<void> bundle_store::add_training_info(unfinished_bundle& bundle) const {
  auto file = bundle.writer.create("training_info.json");
  if (!file) return failure(std::move(file.error()));
  const std::string text = training_info(bundle.cut, options_, bundle.metric);
  if (auto appended = file->append(std::as_bytes(std::span(text))); !appended) return appended;
  auto finished = file->finish();
  if (!finished) return failure(std::move(finished.error()));
  return bundle.writer.add(std::move(*finished));
}

void bundle_store::discard(unfinished_bundle& bundle) {
  const std::lock_guard guard(one_call_);
  throw_away(bundle);
}

std::optional<published_event> bundle_store::fence(epoch_id epoch) {
  const std::lock_guard guard(one_call_);
  fence_ = std::max(fence_, epoch);
  if (unfinished_ != nullptr && unfinished_->cut.epoch < fence_) throw_away(*unfinished_);
  return published_;
}

void bundle_store::throw_away(unfinished_bundle& bundle) {
  if (!std::exchange(bundle.ended, true)) bundle.writer.discard();
}

/// A call of a life that died may come after the next life has begun.
result<void> bundle_store::check_in_time(epoch_id epoch) const {
  if (epoch >= fence_) return {};
  return failure(errc::conflict, "the bundle of epoch " + to_string(epoch) +
                                     " comes after its checkpoint actor was replaced");
}

result<published_bundle> bundle_store::publish(unfinished_bundle& bundle) {
  const std::lock_guard guard(one_call_);
  if (auto fine = check_in_time(bundle.cut.epoch); !fine) return failure(std::move(fine.error()));
  ensure(!bundle.ended, "a bundle that was discarded is not published");
  if (auto added = add_training_info(bundle); !added) {
    throw_away(bundle);
    return failure(std::move(added.error()));
  }
  bundle.ended = true;
  dataplane::publication what;
  what.run_id = options_.run_id;
  what.step = static_cast<std::uint64_t>(bundle.cut.trainer_step);
  for (const owner_sequence& owner : bundle.cut.owners)
    what.owners.push_back({owner.owner, owner.sequence});
  if (bundle.metric) what.metrics.push_back({options_.metric_name, *bundle.metric});
  published_bundle outcome;
  if (newest_) {
    outcome.parent = dataplane::to_string(newest_->name);
    what.parent = dataplane::manifest_parent{outcome.parent, newest_->manifest_checksum};
  }
  what.still_current = [this]() -> result<void> {
    if (auto fine = hit_failpoint("bundle.before_rename"); !fine) return fine;
    return directory_->check_current(options_.life);
  };
  auto published = bundle.writer.publish(std::move(what));
  if (!published) return failure(std::move(published.error()));
  hit_failpoint("bundle.published"); // There to kill: a published bundle stays published.
  newest_ = published->published;
  tell_terms();
  {
    const std::lock_guard listing(known_mutex_);
    known_.push_back(published->published);
  }
  outcome.name = dataplane::to_string(newest_->name);
  published_ = published_event{outcome.name, bundle.cut.epoch, outcome.parent};
  for (const auto& file : newest_->content.files)
    outcome.bytes += file.bytes;
  outcome.pointer_failure = published->pointer_failure;
  return outcome;
}

/// The bundles that the policy does not keep, no longer known.
std::vector<dataplane::bundle> bundle_store::take_leaving() {
  const std::lock_guard guard(known_mutex_);
  std::vector<dataplane::bundle_standing> standings;
  std::map<dataplane::bundle_name, const dataplane::manifest*> contents;
  for (const dataplane::bundle& bundle : known_) {
    dataplane::bundle_standing standing;
    standing.name = bundle.name;
    standing.epoch = bundle.content.epoch;
    standing.metric = bundle.content.metric(options_.metric_name);
    standings.push_back(standing);
    contents.emplace(bundle.name, &bundle.content);
  }
  const auto share = [&contents](dataplane::bundle_name one, dataplane::bundle_name other) {
    return dataplane::share_segments(*contents.at(one), *contents.at(other));
  };
  const auto names = dataplane::bundles_to_retire(standings, options_.retention, {}, share);
  const auto leaves = [&names](const dataplane::bundle& bundle) {
    return std::ranges::find(names, bundle.name) != names.end();
  };
  std::vector<dataplane::bundle> leaving;
  std::ranges::copy_if(known_, std::back_inserter(leaving), leaves);
  std::erase_if(known_, leaves);
  return leaving;
}

result<void> bundle_store::retire() {
  auto leaving = take_leaving();
  if (leaving.empty()) return {};
  std::vector<dataplane::bundle_name> names;
  std::ranges::transform(leaving, std::back_inserter(names), &dataplane::bundle::name);
  auto retired = dataplane::retire_bundles(storage_, options_.checkpoint_directory, names,
                                           dataplane::retired_files::kept_for_next);
  if (retired) return retired;
  const std::lock_guard guard(known_mutex_);
  std::ranges::move(leaving, std::back_inserter(known_));
  return retired;
}

std::string bundle_store::newest_name() const {
  const std::lock_guard guard(one_call_);
  return newest_ ? dataplane::to_string(newest_->name) : std::string();
}

} // namespace weir
