#include "actors/sampler/ledger.hpp"

#include "actors/section.hpp"
#include "messages/limits.hpp"
#include "messages/schemas.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace weir {

namespace {

const std::string section_file = "rollout_recovery.fb";

static_assert(static_cast<int>(group_phase::reserved) == static_cast<int>(GroupPhase::reserved));
static_assert(static_cast<int>(group_phase::admitted) == static_cast<int>(GroupPhase::admitted));
static_assert(static_cast<int>(drop_reason::stale) == static_cast<int>(DropReason::stale));
static_assert(static_cast<int>(drop_reason::poisoned) == static_cast<int>(DropReason::poisoned));
static_assert(static_cast<std::size_t>(DropReason::MAX) + 1 == drop_reasons);

tl::unexpected<error> corrupt(const std::string& text) {
  return failure(errc::corrupt, section_file + ": " + text + "; use another bundle");
}

std::string name_of(group_id group) {
  return "group " + std::to_string(group.value);
}

std::unique_ptr<SiblingRecordT> pack(const sibling_record& record) {
  auto packed = std::make_unique<SiblingRecordT>();
  packed->sibling = record.sibling;
  packed->sealed = record.sealed;
  packed->row = record.row.value;
  for (const continuation& part : record.continuations) {
    auto one = std::make_unique<ContinuationT>();
    one->kind = part.kind;
    one->bytes = part.bytes;
    packed->continuations.push_back(std::move(one));
  }
  return packed;
}

} // namespace

std::unique_ptr<LedgerRecordT> pack_record(const ledger_record& record) {
  auto packed = std::make_unique<LedgerRecordT>();
  packed->group = record.group.value;
  packed->admission = record.admission;
  packed->sample = std::make_unique<SampleId>(record.sample.epoch, record.sample.position);
  packed->content_hash = std::make_unique<Hash128>(record.hash.low, record.hash.high);
  packed->task = record.task;
  packed->siblings = record.siblings;
  packed->phase = static_cast<GroupPhase>(record.phase);
  packed->dispatch_index = record.dispatch_index;
  packed->target_step = record.target_step;
  packed->admission_version = record.admission_version.value;
  packed->window = record.window;
  packed->content_attempt = record.content_attempt;
  packed->data_attempts = record.data_attempts;
  packed->infra_attempts = record.infra_attempts;
  packed->dispatches = record.dispatches;
  packed->replacements = record.replacements;
  for (const sibling_record& sibling : record.sibling_records)
    packed->sibling_records.push_back(pack(sibling));
  return packed;
}

result<ledger_record> unpack_record(const LedgerRecordT& packed) {
  ledger_record record;
  record.group = group_id(packed.group);
  if (packed.sample == nullptr || packed.content_hash == nullptr)
    return corrupt(name_of(record.group) + " has no sample id or no content hash");
  if (packed.phase != GroupPhase::reserved && packed.phase != GroupPhase::admitted)
    return corrupt(name_of(record.group) + " has the unknown phase " +
                   std::to_string(static_cast<unsigned>(packed.phase)));
  record.admission = packed.admission;
  record.sample = {.epoch = packed.sample->epoch(), .position = packed.sample->position()};
  record.hash = {.low = packed.content_hash->low(), .high = packed.content_hash->high()};
  record.task = packed.task;
  record.siblings = packed.siblings;
  record.phase = static_cast<group_phase>(packed.phase);
  record.dispatch_index = packed.dispatch_index;
  record.target_step = packed.target_step;
  record.admission_version = weight_version(packed.admission_version);
  record.window = packed.window;
  record.content_attempt = packed.content_attempt;
  record.data_attempts = packed.data_attempts;
  record.infra_attempts = packed.infra_attempts;
  record.dispatches = packed.dispatches;
  record.replacements = packed.replacements;
  for (const auto& sibling : packed.sibling_records) {
    sibling_record one{.sibling = sibling->sibling,
                       .sealed = sibling->sealed,
                       .row = row_id(sibling->row),
                       .continuations = {}};
    for (const auto& part : sibling->continuations)
      one.continuations.push_back({.kind = part->kind, .bytes = part->bytes});
    record.sibling_records.push_back(std::move(one));
  }
  return record;
}

namespace {

result<void> unpack_records(const RolloutRecoveryT& packed, sampler_image& image) {
  for (const auto& one : packed.ledger) {
    auto record = unpack_record(*one);
    if (!record) return failure(record.error());
    if (image.find(record->group) != nullptr)
      return corrupt(name_of(record->group) + " stands in the ledger twice");
    image.put(std::move(*record));
  }
  for (const auto& one : packed.shortfalls)
    if (!image.shortfalls.insert(one->step, one->groups))
      return corrupt("step " + std::to_string(one->step) + " has two shortfalls");
  return {};
}

result<void> unpack_drops(const std::vector<std::unique_ptr<DropTotalT>>& packed,
                          drop_tallies& dropped) {
  for (const auto& one : packed) {
    const auto reason = static_cast<std::size_t>(one->reason);
    if (reason >= drop_reasons || one->sum == nullptr)
      return corrupt("a total of dropped groups has the unknown reason " + std::to_string(reason));
    group_tally& total = dropped.by_reason[reason];
    if (total.count != 0) return corrupt("the groups dropped for one reason are counted twice");
    total = {.count = one->count, .sum_low = one->sum->low(), .sum_high = one->sum->high()};
  }
  return {};
}

/// What the groups of one admission share.
auto admission_terms(const ledger_record& record) {
  return std::tuple(record.phase, record.dispatch_index, record.target_step,
                    record.admission_version, record.window);
}

std::optional<std::string> fault_of(const sampler_image& image, std::uint64_t key,
                                    const ledger_record& record) {
  const bool admitted = record.phase == group_phase::admitted;
  if (record.group.value != key) return "stands under another id";
  if (record.siblings == 0 || record.siblings > limits::siblings_per_group_max)
    return "has " + std::to_string(record.siblings) + " siblings";
  if (record.admission >= image.next_admission) return "has an admission id that was never given";
  if (!admitted && (record.dispatch_index != -1 || record.target_step != -1))
    return "is reserved and has a stamp";
  if (!admitted) return std::nullopt;
  if (record.dispatch_index < 0) return "is admitted without a dispatch index";
  if (record.dispatch_index > image.dispatch_index)
    return "was dispatched as batch " + std::to_string(record.dispatch_index) +
           ", but the dispatch index is " + std::to_string(image.dispatch_index) +
           ", older than its work";
  if (image.stamps != (record.target_step >= 0))
    return "has a stamp that its sampler does not give";
  return std::nullopt;
}

/// No step has more groups than N, those that it will not get included.
result<void> check_steps(const sampler_image& image) {
  std::map<std::uint64_t, std::uint64_t> groups_of;
  image.ledger.for_each([&](std::uint64_t, const std::shared_ptr<const ledger_record>& record) {
    if (record->target_step >= 0) ++groups_of[static_cast<std::uint64_t>(record->target_step)];
  });
  std::optional<std::uint64_t> empty_shortfall;
  image.shortfalls.for_each([&](std::uint64_t step, std::uint64_t groups) {
    if (groups == 0 || groups > image.groups_per_step) empty_shortfall = step;
    groups_of[step] += std::min(groups, image.groups_per_step);
  });
  if (empty_shortfall)
    return corrupt("step " + std::to_string(*empty_shortfall) + " lacks none or all too many of " +
                   std::to_string(image.groups_per_step) + " groups");
  for (const auto& [step, groups] : groups_of)
    if (groups > image.groups_per_step)
      return corrupt("step " + std::to_string(step) + " has more than " +
                     std::to_string(image.groups_per_step) + " groups");
  return {};
}

} // namespace

ledger_record record_of(const group_reservation& prompt) {
  ledger_record record;
  record.group = prompt.group;
  record.sample = prompt.sample;
  record.hash = prompt.hash;
  record.task = prompt.task;
  record.siblings = prompt.siblings;
  return record;
}

bool dispatched_before(const ledger_record& left, const ledger_record& right) {
  const auto key = [](const ledger_record& record) {
    const bool reserved = record.phase == group_phase::reserved;
    return std::tuple(reserved, record.dispatch_index, reserved ? record.admission : 0,
                      record.group);
  };
  return key(left) < key(right);
}

void sampler_image::put(ledger_record record) {
  erase(record.group);
  (record.phase == group_phase::reserved ? reserved : admitted).add(record.group);
  const std::uint64_t key = record.group.value;
  ledger.insert_or_assign(key, std::make_shared<const ledger_record>(std::move(record)));
}

void sampler_image::erase(group_id group) {
  const ledger_record* record = find(group);
  if (record == nullptr) return;
  (record->phase == group_phase::reserved ? reserved : admitted).remove(group);
  ledger.erase(group.value);
}

const ledger_record* sampler_image::find(group_id group) const {
  const auto* record = ledger.find(group.value);
  return record == nullptr ? nullptr : record->get();
}

void sampler_image::set_aside(group_reservation spare) {
  in_reserve.add(spare.group);
  const std::uint64_t key = spare.group.value;
  const bool is_new =
      reserve.insert(key, std::make_shared<const group_reservation>(std::move(spare)));
  ensure(is_new, "a spare is set aside once");
}

group_reservation sampler_image::take_spare(group_id group) {
  const auto* found = reserve.find(group.value);
  ensure(found != nullptr, "only a spare is taken out of the reserve");
  group_reservation spare = **found;
  reserve.erase(group.value);
  in_reserve.remove(group);
  return spare;
}

void add_tallies(const sampler_image& image, cut_tallies& tallies) {
  tallies.of(group_state::reserved) += image.reserved;
  tallies.of(group_state::admitted) += image.admitted;
  tallies.of(group_state::dropped) += image.dropped.total();
  tallies.of(group_state::in_reserve) += image.in_reserve;
}

std::vector<ledger_record> in_dispatch_order(const ledger_map& ledger) {
  std::vector<ledger_record> records;
  records.reserve(ledger.size());
  ledger.for_each([&records](std::uint64_t, const std::shared_ptr<const ledger_record>& record) {
    records.push_back(*record);
  });
  std::ranges::sort(records, dispatched_before);
  return records;
}

std::vector<std::byte> encode(const sampler_image& image, epoch_id epoch) {
  RolloutRecoveryT packed;
  packed.format_version = rollout_recovery_format;
  packed.epoch_id = std::make_unique<EpochId>(epoch.incarnation, epoch.life, epoch.number);
  packed.sampler = image.sampler;
  packed.window = image.window;
  packed.groups_per_step = image.groups_per_step;
  packed.stamps = image.stamps;
  packed.live_version = image.live_version.value;
  packed.dispatch_index = image.dispatch_index;
  packed.next_admission = image.next_admission;
  image.ledger.for_each([&](std::uint64_t, const std::shared_ptr<const ledger_record>& record) {
    packed.ledger.push_back(pack_record(*record));
  });
  image.shortfalls.for_each([&](std::uint64_t step, std::uint64_t groups) {
    auto one = std::make_unique<ShortfallT>();
    one->step = step;
    one->groups = groups;
    packed.shortfalls.push_back(std::move(one));
  });
  for (std::size_t reason = 0; reason < drop_reasons; ++reason) {
    const group_tally& total = image.dropped.by_reason[reason];
    if (total.count == 0) continue;
    auto one = std::make_unique<DropTotalT>();
    one->reason = static_cast<DropReason>(reason);
    one->count = total.count;
    one->sum = std::make_unique<Hash128>(total.sum_low, total.sum_high);
    packed.dropped.push_back(std::move(one));
  }
  packed.skipped_prompts = image.skipped_prompts;
  packed.consecutive_dropped = image.consecutive_dropped;
  packed.spares = image.in_reserve.count;
  packed.replaced_prompt_groups = image.replaced_prompt_groups;
  packed.promoted_prompt_groups = image.promoted_prompt_groups;
  return pack_section(packed);
}

result<decoded_sampler> decode_sampler(std::span<const std::byte> section) {
  auto packed = unpack_section<RolloutRecovery>(section, section_file, rollout_recovery_format);
  if (!packed) return failure(packed.error());
  if (packed->epoch_id == nullptr) return corrupt("the epoch is missing");
  decoded_sampler decoded;
  decoded.epoch = {.incarnation = packed->epoch_id->incarnation(),
                   .life = packed->epoch_id->life(),
                   .number = packed->epoch_id->number()};
  sampler_image& image = decoded.image;
  image.sampler = packed->sampler;
  image.window = packed->window;
  image.groups_per_step = packed->groups_per_step;
  image.stamps = packed->stamps;
  image.live_version = weight_version(packed->live_version);
  image.dispatch_index = packed->dispatch_index;
  image.next_admission = packed->next_admission;
  image.skipped_prompts = packed->skipped_prompts;
  image.consecutive_dropped = packed->consecutive_dropped;
  image.replaced_prompt_groups = packed->replaced_prompt_groups;
  image.promoted_prompt_groups = packed->promoted_prompt_groups;
  decoded.spares = packed->spares;
  if (auto done = unpack_records(*packed, image); !done) return failure(done.error());
  if (auto done = unpack_drops(packed->dropped, image.dropped); !done) return failure(done.error());
  if (auto done = check_image(image); !done) return failure(done.error());
  return decoded;
}

result<void> check_image(const sampler_image& image) {
  if (image.groups_per_step == 0 || image.groups_per_step > limits::groups_per_step_max)
    return corrupt("a step has " + std::to_string(image.groups_per_step) + " groups");
  if (image.dispatch_index < -1)
    return corrupt("the dispatch index is " + std::to_string(image.dispatch_index));
  std::optional<std::string> fault;
  std::map<std::uint64_t, const ledger_record*> admissions;
  image.ledger.for_each([&](std::uint64_t key, const std::shared_ptr<const ledger_record>& record) {
    fault = fault_of(image, key, *record);
    // One that took the place of another one may have another stamp: it repaid a lender.
    const bool took_a_place = record->replacements > 0;
    const auto first = took_a_place
                           ? record.get()
                           : admissions.emplace(record->admission, record.get()).first->second;
    if (!fault && admission_terms(*first) != admission_terms(*record))
      fault = "and " + name_of(first->group) + " are of admission " +
              std::to_string(record->admission) + ", but disagree on phase or stamp";
    if (fault) fault = name_of(group_id(key)) + " " + *fault;
    return !fault;
  });
  if (fault) return corrupt(*fault);
  return check_steps(image);
}

} // namespace weir
