#include "actors/checkpoint/barrier_state.hpp"

#include "actors/checkpoint/balance.hpp"
#include "messages/rule.hpp"

#include <algorithm>
#include <utility>

namespace weir {

namespace {

template <class Participant>
bool have_all_answered(const std::vector<Participant>& participants) {
  return std::ranges::all_of(participants, &Participant::answered);
}

template <class Participant>
void expect_answers(std::vector<Participant>& participants) {
  for (Participant& each : participants)
    each.answered = false;
}

/// The participant of that name that has yet to answer.
template <class Participant>
Participant* unanswered_of(std::vector<Participant>& participants, std::string_view name) {
  const auto found = std::ranges::find(participants, name, &Participant::name);
  return found == participants.end() || found->answered ? nullptr : &*found;
}

template <class Participant>
bool has(const std::vector<Participant>& participants, std::string_view name) {
  return std::ranges::find(participants, name, &Participant::name) != participants.end();
}

std::string seconds(std::int64_t nanoseconds) {
  const std::int64_t tenths = nanoseconds / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

} // namespace

barrier_state::barrier_state(barrier_options options, incarnation run_life, std::uint64_t life,
                             std::vector<std::string> origins, std::vector<std::string> owners,
                             bool has_bundle)
    : options_(options), epoch_{.incarnation = run_life.value, .life = life, .number = 0},
      has_bundle_(has_bundle) {
  ensure(options.quiesce_timeout_ns > 0 && options.capture_timeout_ns > 0 &&
             options.resume_timeout_ns > 0,
         "the stages of a barrier have timeouts");
  ensure(options.hold_limit_ns > options.quiesce_timeout_ns + options.capture_timeout_ns,
         "a gate opens by itself only after the stages before Resume have timed out");
  for (std::string& name : origins) {
    ensure(!has(origins_, name), "the origins of a barrier have different names");
    origins_.push_back({.name = std::move(name)});
  }
  for (std::string& name : owners) {
    ensure(!has(owners_, name), "the owners of a barrier have different names");
    owners_.emplace_back().name = std::move(name);
  }
}

barrier_effects barrier_state::request(std::int64_t now, request_ticket ticket) {
  if (stage_ == stage::ended)
    return {answer_refused{{ticket}, {errc::unavailable, "the run is ending: no checkpoint"}}};
  if (waiting_.size() >= waiting_requests_max)
    return {answer_refused{{ticket},
                           {errc::exhausted, std::to_string(waiting_.size()) +
                                                 " requests wait for the next checkpoint"}}};
  waiting_.push_back(ticket);
  if (stage_ != stage::idle) return {};
  return start(now);
}

barrier_effects barrier_state::start(std::int64_t now) {
  ensure(!owners_.empty(), "a cut without an owner holds nothing");
  ensure(stage_ == stage::idle, "one checkpoint at a time");
  serving_.insert(serving_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  ++epoch_.number;
  stage_started_ns_ = now;
  timings_ = {};
  barrier_effects effects;
  if (options_.announce_timeout_ns > 0)
    announce(effects);
  else
    quiesce(now, effects);
  return effects;
}

void barrier_state::announce(barrier_effects& effects) {
  stage_ = stage::announcing;
  expect_answers(origins_);
  expect_answers(owners_);
  for (std::string& name : everybody())
    effects.push_back(send_announce{std::move(name), epoch_});
}

barrier_effects barrier_state::announced(std::int64_t now, std::string_view name, epoch_id epoch) {
  barrier_effects effects;
  if (!expects(stage::announcing, epoch)) return effects;
  if (auto* const origin = unanswered_of(origins_, name)) origin->answered = true;
  if (auto* const owner = unanswered_of(owners_, name)) owner->answered = true;
  if (have_all_answered(origins_) && have_all_answered(owners_)) quiesce(now, effects);
  return effects;
}

void barrier_state::quiesce(std::int64_t now, barrier_effects& effects) {
  started_ns_ = stage_started_ns_ = now;
  stage_ = stage::quiescing;
  expect_answers(origins_);
  for (const participant& origin : origins_)
    effects.push_back(send_quiesce{origin.name, epoch_, options_.hold_limit_ns});
  if (origins_.empty()) cut(now, effects);
}

bool barrier_state::expects(stage wanted, epoch_id epoch) const {
  return stage_ == wanted && epoch_ == epoch;
}

barrier_effects barrier_state::quiesced(std::int64_t now, std::string_view origin, epoch_id epoch) {
  barrier_effects effects;
  participant* const who =
      expects(stage::quiescing, epoch) ? unanswered_of(origins_, origin) : nullptr;
  if (who == nullptr) return effects;
  who->answered = true;
  if (have_all_answered(origins_)) cut(now, effects);
  return effects;
}

void barrier_state::cut(std::int64_t now, barrier_effects& effects) {
  timings_.drain_ns = now - started_ns_;
  stage_started_ns_ = now;
  stage_ = stage::capturing;
  expect_answers(owners_);
  for (const owner_part& owner : owners_)
    effects.push_back(send_cut{owner.name, epoch_});
}

barrier_effects barrier_state::captured(std::int64_t now, std::string_view owner, epoch_id epoch,
                                        const captured_report& report) {
  barrier_effects effects;
  owner_part* const who =
      expects(stage::capturing, epoch) ? unanswered_of(owners_, owner) : nullptr;
  if (who == nullptr) return effects;
  who->answered = true;
  who->report = report;
  if (have_all_answered(owners_)) resume(now, effects);
  return effects;
}

void barrier_state::resume(std::int64_t now, barrier_effects& effects) {
  timings_.capture_ns = now - stage_started_ns_;
  stage_started_ns_ = now;
  stage_ = stage::resuming;
  expect_answers(origins_);
  for (const participant& origin : origins_)
    effects.push_back(send_resume{origin.name, epoch_});
  if (origins_.empty()) decide(now, effects);
}

barrier_effects barrier_state::resumed(std::int64_t now, std::string_view origin, epoch_id epoch,
                                       bool held) {
  barrier_effects effects;
  participant* const who =
      expects(stage::resuming, epoch) ? unanswered_of(origins_, origin) : nullptr;
  if (who == nullptr) return effects;
  who->answered = true;
  who->held = held;
  if (have_all_answered(origins_)) decide(now, effects);
  return effects;
}

/// Every gate is open again: whether this cut can be published.
void barrier_state::decide(std::int64_t now, barrier_effects& effects) {
  timings_.hold_ns = now - started_ns_;
  std::string broken;
  for (const participant& origin : origins_)
    if (!origin.held && enforced(rule::published_only_if_held))
      broken.append(" gate of ").append(origin.name).append(" did not hold;");
  for (const owner_part& owner : owners_)
    if (owner.report.tainted) broken.append(" ").append(owner.name).append(" is tainted;");
  if (!broken.empty()) {
    broken.pop_back();
    give_up(now, {errc::conflict, "epoch " + to_string(epoch_) + " is no consistent cut:" + broken},
            effects);
    return;
  }
  cut_facts cut = facts();
  if (auto balance = check_balance(cut.tallies); !balance) {
    unbalanced(now, balance.error(), effects);
    return;
  }
  was_unbalanced_ = false;
  if (cut.mutations == 0 && has_bundle_) {
    abort_owners(effects);
    effects.push_back(answer_published{std::exchange(serving_, {}), newest_published_, true});
    finish(now, effects);
    return;
  }
  stage_ = stage::publishing;
  effects.push_back(publish_cut{std::move(cut)});
}

cut_facts barrier_state::facts() const {
  cut_facts cut{.epoch = epoch_, .owners = {}, .timings = timings_};
  for (const owner_part& owner : owners_) {
    const captured_report& report = owner.report;
    cut.owners.push_back({owner.name, report.sequence});
    cut.tallies.handed_out += report.tallies.handed_out;
    for (std::size_t state = 0; state < group_states; ++state)
      cut.tallies.in_state[state] += report.tallies.in_state[state];
    cut.mutations += report.mutations;
    cut.trainer_step = std::max(cut.trainer_step, report.trainer_step);
  }
  return cut;
}

void barrier_state::unbalanced(std::int64_t now, const error& why, barrier_effects& effects) {
  if (!was_unbalanced_) {
    was_unbalanced_ = true;
    abort_all(effects);
    stage_ = stage::idle;
    barrier_effects again = start(now);
    std::ranges::move(again, std::back_inserter(effects));
    return;
  }
  abort_all(effects);
  stage_ = stage::ended;
  std::vector<request_ticket> tickets = std::exchange(serving_, {});
  tickets.insert(tickets.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  error verdict = why;
  verdict.text = "twice in a row, " + verdict.text +
                 "; a group was lost or doubled, and no later checkpoint can heal that: restart "
                 "from the newest bundle";
  effects.push_back(answer_refused{std::move(tickets), verdict});
  effects.push_back(end_run{std::move(verdict)});
}

void barrier_state::give_up(std::int64_t now, const error& why, barrier_effects& effects) {
  abort_all(effects);
  effects.push_back(answer_refused{std::exchange(serving_, {}), why});
  finish(now, effects);
}

/// The epoch is over: whoever asked meanwhile is served by the next one.
void barrier_state::finish(std::int64_t now, barrier_effects& effects) {
  stage_ = stage::idle;
  if (waiting_.empty()) return;
  barrier_effects next = start(now);
  std::ranges::move(next, std::back_inserter(effects));
}

std::vector<std::string> barrier_state::everybody() const {
  std::vector<std::string> names;
  for (const participant& origin : origins_)
    names.push_back(origin.name);
  for (const owner_part& owner : owners_)
    if (!has(origins_, owner.name)) names.push_back(owner.name);
  return names;
}

void barrier_state::abort_all(barrier_effects& effects) const {
  for (std::string& name : everybody())
    effects.push_back(send_abort{std::move(name), epoch_});
}

void barrier_state::abort_owners(barrier_effects& effects) const {
  for (const owner_part& owner : owners_)
    effects.push_back(send_abort{owner.name, epoch_});
}

barrier_effects barrier_state::failed(std::int64_t now, std::string_view name, epoch_id epoch,
                                      const error& why) {
  barrier_effects effects;
  const bool is_asked =
      (expects(stage::capturing, epoch) && unanswered_of(owners_, name) != nullptr) ||
      ((expects(stage::quiescing, epoch) || expects(stage::resuming, epoch)) &&
       unanswered_of(origins_, name) != nullptr);
  if (!is_asked) return effects;
  give_up(now,
          {why.code, "epoch " + to_string(epoch_) + " was aborted: " + std::string(name) +
                         " failed: " + why.text},
          effects);
  return effects;
}

barrier_effects barrier_state::published(std::int64_t now, epoch_id epoch) {
  barrier_effects effects;
  if (!expects(stage::publishing, epoch)) return effects;
  has_bundle_ = true;
  newest_published_ = epoch_;
  for (const owner_part& owner : owners_)
    effects.push_back(send_release{owner.name, epoch_});
  effects.push_back(answer_published{std::exchange(serving_, {}), epoch_, false});
  finish(now, effects);
  return effects;
}

barrier_effects barrier_state::publish_failed(std::int64_t now, epoch_id epoch, const error& why) {
  barrier_effects effects;
  if (!expects(stage::publishing, epoch)) return effects;
  abort_owners(effects);
  effects.push_back(answer_refused{std::exchange(serving_, {}), why});
  finish(now, effects);
  return effects;
}

barrier_effects barrier_state::tick(std::int64_t now, std::span<const lease_report> leases) {
  barrier_effects effects;
  const auto due = deadline();
  if (!due || now < *due) return effects;
  if (stage_ == stage::announcing) {
    quiesce(now, effects);
    return effects;
  }
  give_up(now, timeout_error(now, leases), effects);
  return effects;
}

std::optional<std::int64_t> barrier_state::deadline() const {
  switch (stage_) {
  case stage::announcing:
    return stage_started_ns_ + options_.announce_timeout_ns;
  case stage::quiescing:
    return stage_started_ns_ + options_.quiesce_timeout_ns;
  case stage::capturing:
    return stage_started_ns_ + options_.capture_timeout_ns;
  case stage::resuming:
    return stage_started_ns_ + options_.resume_timeout_ns;
  case stage::idle:
  case stage::publishing:
  case stage::ended:
    break;
  }
  return std::nullopt;
}

std::vector<std::string> barrier_state::unanswered() const {
  std::vector<std::string> names;
  if (stage_ == stage::capturing) {
    for (const owner_part& owner : owners_)
      if (!owner.answered) names.push_back(owner.name);
  } else if (stage_ == stage::quiescing || stage_ == stage::resuming) {
    for (const participant& origin : origins_)
      if (!origin.answered) names.push_back(origin.name);
  }
  return names;
}

error barrier_state::timeout_error(std::int64_t now, std::span<const lease_report> leases) const {
  const std::string_view message = stage_ == stage::quiescing   ? "Quiesce"
                                   : stage_ == stage::capturing ? "Cut"
                                                                : "Resume";
  std::string text = "epoch " + to_string(epoch_) + " was aborted: no answer to " +
                     std::string(message) + " within " + seconds(now - stage_started_ns_) + " from";
  char before = ' ';
  for (const std::string& name : unanswered()) {
    text += before == ' ' ? " " : ", ";
    before = ',';
    text += name;
    const auto known = std::ranges::find(leases, name, &lease_report::actor);
    text += known == leases.end() || known->oldest_lease.empty()
                ? " (no lease known)"
                : " (oldest lease: " + known->oldest_lease + ")";
  }
  return {errc::timed_out, std::move(text)};
}

} // namespace weir
