/// A small world around barrier_state: two origins with gates, two owners with captures, and
/// messages in flight that may be delivered in any order, doubled or lost. Whatever can happen next
/// is a list of choices, so that a test can take all of them.
///
/// Each origin runs transactions of one request to each owner. A published cut must hold each
/// transaction in both owners or in neither. Gates, captures and the checkpoint actor are the real
/// `gate_state`, `capture_ledger` and `barrier_state`, so a suspended rule (messages/rule.hpp) is
/// off here as it would be in a run.
#pragma once

#include "actors/checkpoint/barrier_state.hpp"
#include "actors/checkpoint/owner_capture.hpp"
#include "actors/runtime/gate_state.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace weir::testing {

struct world_limits {
  std::uint8_t transactions = 1; ///< Of the first origin.
  std::uint8_t transactions_of_second = 1;
  std::uint8_t requests = 1; ///< Checkpoints that are asked for.
  std::uint8_t losses = 0;
  std::uint8_t duplicates = 0;
  std::uint8_t self_opens = 0;
  std::uint8_t timeouts = 0;
  std::uint8_t crashes = 0; ///< Of the checkpoint actor; a new life follows.
  std::uint8_t cancels = 0; ///< Of a wait for answers: the lease is released early.
};

class barrier_world {
public:
  static constexpr std::size_t parts = 2;

  explicit barrier_world(const world_limits& limits) : left_(limits), barrier_(make_barrier(1)) {
    origins_[0].left = limits.transactions;
    origins_[1].left = limits.transactions_of_second;
  }

  /// Number of things that can happen next.
  [[nodiscard]] std::size_t choices() const { return list().size(); }
  /// Lets one of them happen.
  void choose(std::size_t choice);
  /// Everything that a future depends on, as bytes.
  [[nodiscard]] std::string fingerprint() const;

  /// Nothing can happen any more, and something is not as it should be.
  [[nodiscard]] bool stuck() const;
  /// Nothing can happen any more, and an owner lacks what another one applied.
  [[nodiscard]] bool halved() const {
    return choices() == 0 && owners_[0].applied != owners_[1].applied;
  }
  /// A gate was opened by its hold limit alone, after everybody had done what was asked of it.
  [[nodiscard]] bool waited() const { return waited_; }
  /// A cut was published that holds half of a transaction.
  [[nodiscard]] bool torn() const { return torn_; }
  [[nodiscard]] unsigned published() const { return published_; }

private:
  enum class kind : std::uint8_t {
    quiesce,
    cut,
    resume,
    abort,
    release, // to a participant
    quiesced,
    captured,
    resumed, // from one
  };
  struct message {
    kind what;
    std::uint8_t part; ///< Index of the origin or owner.
    bool to_owner;     ///< Of an abort: to an owner.
    bool flag;         ///< held, tainted
    epoch_id epoch;
    friend auto operator<=>(const message&, const message&) = default;
  };
  struct origin {
    gate_state gate;
    bool quiesced_due = false;
    // The transaction under way.
    gate_state::transaction_id transaction = 0;
    std::uint8_t requests = 0; ///< To which owners one is under way; bit = owner.
    bool held = false;         ///< The lease is.
    epoch_id granted = {};
    std::uint8_t left = 0;
    std::uint8_t done = 0;

    [[nodiscard]] bool active() const { return held || requests != 0; }
  };
  struct owner {
    capture_ledger captures;
    std::uint16_t applied = 0; ///< Bit 4 * origin + transaction.
    std::uint16_t captured = 0;
  };
  enum class act : std::uint8_t {
    deliver,
    lose,
    duplicate,
    begin,
    apply,
    cancel,
    self_open,
    request,
    timeout,
    crash,
    publish,
  };
  struct choice {
    act what;
    std::uint8_t index;
  };

  [[nodiscard]] static barrier_state make_barrier(std::uint64_t life) {
    constexpr barrier_options unannounced{.announce_timeout_ns = 0}; // It changes nothing.
    return {unannounced, incarnation(1), life, {"0", "1"}, {"0", "1"}, false};
  }
  [[nodiscard]] std::vector<choice> list() const;
  void perform(const barrier_effects& effects);
  void send(kind what, std::string_view to, epoch_id epoch, bool to_owner);
  void deliver(message sent);
  void deliver_to_gate(const message& sent, origin& at);
  void deliver_to_owner(const message& sent, owner& at);
  void settle(std::size_t part);
  void begin(origin& at);
  void apply(std::size_t part, std::size_t to);
  [[nodiscard]] static bool may_expire(const origin& at) {
    gate_state copy = at.gate;
    return copy.expire(hold_limit);
  }
  void publish();
  void answer(kind what, std::uint8_t part, epoch_id epoch, bool flag);
  [[nodiscard]] bool is_consistent() const { return owners_[0].captured == owners_[1].captured; }

  world_limits left_;
  barrier_state barrier_;
  std::uint64_t life_ = 1;
  static constexpr gate_state::time hold_limit{1};
  std::array<origin, parts> origins_;
  std::array<owner, parts> owners_;
  std::vector<message> flying_;
  /// What the running epoch's accepted answers said: the barrier's state depends on it.
  std::string accepted_;
  unsigned published_ = 0;
  bool torn_ = false;
  bool waited_ = false;
};

inline std::vector<barrier_world::choice> barrier_world::list() const {
  std::vector<choice> all;
  const auto each_message = [&](act what) {
    for (std::size_t index = 0; index < flying_.size(); ++index)
      if (index == 0 || flying_[index] != flying_[index - 1])
        all.push_back({what, static_cast<std::uint8_t>(index)});
  };
  each_message(act::deliver);
  if (left_.losses > 0) each_message(act::lose);
  if (left_.duplicates > 0) each_message(act::duplicate);
  for (std::uint8_t each = 0; each < parts; ++each) {
    const origin& at = origins_[each];
    for (std::uint8_t to = 0; to < parts; ++to)
      if ((at.requests >> to & 1U) != 0)
        all.push_back({act::apply, static_cast<std::uint8_t>(parts * each + to)});
    if (at.held && left_.cancels > 0) all.push_back({act::cancel, each});
    if (!at.active() && at.gate.open() && at.left > 0) all.push_back({act::begin, each});
    if (left_.self_opens > 0 && may_expire(at)) all.push_back({act::self_open, each});
  }
  if (left_.requests > 0) all.push_back({act::request, 0});
  if (barrier_.deadline() && left_.timeouts > 0) all.push_back({act::timeout, 0});
  if (left_.crashes > 0 && barrier_.now_in() != barrier_state::stage::idle)
    all.push_back({act::crash, 0});
  if (barrier_.now_in() == barrier_state::stage::publishing) all.push_back({act::publish, 0});
  // Deadlines end what nothing else does.
  if (all.empty() && barrier_.deadline()) all.push_back({act::timeout, 0});
  for (std::uint8_t each = 0; each < parts && all.empty(); ++each)
    if (may_expire(origins_[each])) all.push_back({act::self_open, each});
  return all;
}

inline void barrier_world::choose(std::size_t chosen) {
  const choice what = list().at(chosen);
  const auto spend = [](std::uint8_t& budget) {
    if (budget > 0) --budget;
  };
  switch (what.what) {
  case act::deliver: {
    const message sent = flying_[what.index];
    flying_.erase(flying_.begin() + what.index);
    deliver(sent);
    break;
  }
  case act::lose:
    spend(left_.losses);
    flying_.erase(flying_.begin() + what.index);
    break;
  case act::duplicate:
    spend(left_.duplicates);
    flying_.insert(flying_.begin() + what.index, flying_[what.index]);
    break;
  case act::begin:
    begin(origins_[what.index]);
    break;
  case act::apply:
    apply(what.index / parts, what.index % parts);
    break;
  case act::cancel:
    spend(left_.cancels);
    origins_[what.index].held = false;
    origins_[what.index].gate.released(origins_[what.index].transaction);
    settle(what.index);
    break;
  case act::self_open:
    waited_ = waited_ || left_.self_opens == 0;
    spend(left_.self_opens);
    std::ignore = origins_[what.index].gate.expire(hold_limit);
    origins_[what.index].quiesced_due = false;
    break;
  case act::request:
    spend(left_.requests);
    perform(barrier_.request(0, {1}));
    break;
  case act::timeout:
    spend(left_.timeouts);
    perform(barrier_.tick(*barrier_.deadline(), {}));
    break;
  case act::crash:
    spend(left_.crashes);
    barrier_ = make_barrier(++life_);
    accepted_.clear();
    perform(barrier_.request(0, {1}));
    break;
  case act::publish:
    publish();
    break;
  }
  std::ranges::sort(flying_);
}

inline void barrier_world::begin(origin& at) {
  at.transaction = at.gate.enter(gate_state::time(0));
  at.granted = at.gate.granted_at(at.transaction);
  for (std::size_t to = 0; to < parts; ++to)
    std::ignore = at.gate.sent(at.transaction);
  at.requests = (1U << parts) - 1;
  at.held = true;
  --at.left;
}

/// One request of the transaction, applied and answered; the lease is released after the last.
inline void barrier_world::apply(std::size_t part, std::size_t to) {
  origin& from = origins_[part];
  owner& at = owners_[to];
  if (at.captures.admissible(from.granted)) {
    at.applied = static_cast<std::uint16_t>(at.applied | (1U << (4 * part + from.done)));
    at.captures.applied(from.granted);
  }
  from.requests = static_cast<std::uint8_t>(from.requests & ~(1U << to));
  from.gate.answered(from.transaction);
  if (from.requests == 0) {
    if (std::exchange(from.held, false)) from.gate.released(from.transaction);
    ++from.done;
  }
  settle(part);
}

inline void barrier_world::settle(std::size_t part) {
  origin& at = origins_[part];
  const epoch_id epoch = at.gate.last_epoch();
  if (!at.quiesced_due || !at.gate.quiesced(epoch)) return;
  at.quiesced_due = false;
  answer(kind::quiesced, static_cast<std::uint8_t>(part), epoch, false);
}

inline void barrier_world::answer(kind what, std::uint8_t part, epoch_id epoch, bool flag) {
  flying_.push_back({what, part, false, flag, epoch});
}

inline void barrier_world::send(kind what, std::string_view to, epoch_id epoch, bool to_owner) {
  flying_.push_back({what, static_cast<std::uint8_t>(to == "0" ? 0 : 1), to_owner, false, epoch});
}

inline void barrier_world::perform(const barrier_effects& effects) {
  for (const barrier_effect& effect : effects) {
    if (const auto* quiesce = std::get_if<send_quiesce>(&effect))
      send(kind::quiesce, quiesce->to, quiesce->epoch, false);
    if (const auto* cut = std::get_if<send_cut>(&effect))
      send(kind::cut, cut->to, cut->epoch, true);
    if (const auto* resume = std::get_if<send_resume>(&effect))
      send(kind::resume, resume->to, resume->epoch, false);
    if (const auto* release = std::get_if<send_release>(&effect))
      send(kind::release, release->to, release->epoch, true);
    // An actor that is both origin and owner is told once and does both; here they are two.
    if (const auto* abort = std::get_if<send_abort>(&effect)) {
      if (barrier_.now_in() != barrier_state::stage::publishing)
        send(kind::abort, abort->to, abort->epoch, false);
      send(kind::abort, abort->to, abort->epoch, true);
    }
  }
  if (barrier_.unanswered().size() == parts) accepted_.clear();
}

inline void barrier_world::deliver(message sent) {
  const std::string name = std::to_string(sent.part);
  const auto waiting = barrier_.unanswered();
  const bool is_waited_for =
      sent.epoch == barrier_.epoch() && std::ranges::count(waiting, name) != 0;
  switch (sent.what) {
  case kind::quiesce:
  case kind::resume:
    deliver_to_gate(sent, origins_[sent.part]);
    return;
  case kind::abort:
    if (sent.to_owner)
      deliver_to_owner(sent, owners_[sent.part]);
    else
      deliver_to_gate(sent, origins_[sent.part]);
    return;
  case kind::cut:
  case kind::release:
    deliver_to_owner(sent, owners_[sent.part]);
    return;
  case kind::quiesced:
    perform(barrier_.quiesced(0, name, sent.epoch));
    return;
  case kind::captured: {
    captured_report report;
    report.tainted = sent.flag;
    report.mutations = 1;
    if (is_waited_for && barrier_.now_in() == barrier_state::stage::capturing)
      accepted_ += sent.flag ? 't' : 'c';
    perform(barrier_.captured(0, name, sent.epoch, report));
    return;
  }
  case kind::resumed:
    if (is_waited_for && barrier_.now_in() == barrier_state::stage::resuming)
      accepted_ += sent.flag ? 'h' : 'n';
    perform(barrier_.resumed(0, name, sent.epoch, sent.flag));
    return;
  }
}

inline void barrier_world::deliver_to_gate(const message& sent, origin& at) {
  switch (sent.what) {
  case kind::quiesce:
    if (!at.gate.close(sent.epoch, gate_state::time(0), hold_limit)) return;
    at.quiesced_due = true;
    settle(sent.part);
    return;
  case kind::resume: {
    const bool held = at.gate.resume(sent.epoch);
    answer(kind::resumed, sent.part, sent.epoch, held);
    break;
  }
  default:
    at.gate.abort(sent.epoch);
  }
  if (at.gate.open()) at.quiesced_due = false;
}

inline void barrier_world::deliver_to_owner(const message& sent, owner& at) {
  switch (sent.what) {
  case kind::cut: {
    if (!at.captures.accepts(sent.epoch)) return;
    const capture_facts facts = at.captures.cut(sent.epoch);
    at.captured = at.applied;
    answer(kind::captured, sent.part, sent.epoch, facts.tainted);
    return;
  }
  case kind::release:
    std::ignore = at.captures.release(sent.epoch);
    return;
  default:
    at.captures.abort(sent.epoch);
  }
}

/// The owners write their sections, unless one of them refuses.
inline void barrier_world::publish() {
  const epoch_id epoch = barrier_.epoch();
  const bool is_written = std::ranges::all_of(
      owners_, [epoch](const owner& each) { return each.captures.publishable(epoch).has_value(); });
  accepted_.clear();
  if (!is_written) {
    perform(barrier_.publish_failed(0, epoch, {errc::conflict, "tainted"}));
    return;
  }
  ++published_;
  torn_ = torn_ || !is_consistent();
  perform(barrier_.published(0, epoch));
}

inline bool barrier_world::stuck() const {
  if (choices() != 0) return false;
  return barrier_.now_in() != barrier_state::stage::idle ||
         std::ranges::any_of(origins_, [](const origin& each) {
           return !each.gate.open() || each.active() || each.left != 0;
         });
}

inline std::string barrier_world::fingerprint() const {
  std::string bytes =
      accepted_ + (torn_ ? 'x' : '.') + (published_ > 0 ? 'p' : '.') + (waited_ ? 'w' : '.');
  const auto put = [&bytes](std::uint64_t value) { bytes += static_cast<char>(value); };
  const auto put_epoch = [&](epoch_id epoch) {
    put(epoch.life);
    put(epoch.number);
  };
  put(255);
  for (const auto budget : {left_.requests, left_.losses, left_.duplicates, left_.self_opens,
                            left_.timeouts, left_.crashes, left_.cancels})
    put(budget);
  put(static_cast<std::uint64_t>(barrier_.now_in()));
  put_epoch(barrier_.epoch());
  for (const std::string& name : barrier_.unanswered())
    bytes += name;
  put(254);
  for (const origin& each : origins_) {
    // What a Resume would be told now is all that a gate remembers besides.
    gate_state copy = each.gate;
    const bool would_hold = copy.resume(copy.last_epoch());
    for (const bool flag : {each.gate.open(), each.quiesced_due, would_hold, each.held})
      put(flag ? 1 : 0);
    put(each.requests);
    put_epoch(each.gate.last_epoch());
    put_epoch(each.active() ? each.granted : epoch_id());
    put(each.left);
    put(each.done);
  }
  for (const owner& each : owners_) {
    put(each.applied);
    put(each.captured);
    put_epoch(each.captures.newest_epoch());
    put_epoch(each.captures.newest_lease());
    const auto kept = each.captures.kept();
    put(kept ? 1 : 0);
    put(kept && each.captures.publishable(*kept) ? 1 : 0);
  }
  for (const message& each : flying_) {
    put(static_cast<std::uint64_t>(each.what));
    put(each.part);
    put(each.to_owner ? 1 : 0);
    put(each.flag ? 1 : 0);
    put_epoch(each.epoch);
  }
  return bytes;
}

/// What an exploration found: numbers of states.
struct explored {
  std::size_t states = 0;
  std::size_t torn = 0;
  std::size_t stuck = 0;
  std::size_t halved = 0;
  std::size_t waited = 0;
  /// Ends in which a cut was published.
  std::size_t published = 0;
};

/// Visits every state that can be reached, each once.
inline explored explore(const world_limits& limits, std::size_t states_max = 1'000'000) {
  explored found;
  std::unordered_set<std::string> seen;
  std::vector<barrier_world> pending;
  pending.emplace_back(limits);
  seen.insert(pending.back().fingerprint());
  while (!pending.empty() && seen.size() < states_max) {
    const barrier_world world = std::move(pending.back());
    pending.pop_back();
    const std::size_t choices = world.choices();
    found.torn += world.torn() ? 1 : 0;
    found.stuck += world.stuck() ? 1 : 0;
    found.halved += world.halved() ? 1 : 0;
    found.waited += world.waited() ? 1 : 0;
    found.published += choices == 0 && world.published() > 0 ? 1 : 0;
    for (std::size_t choice = 0; choice < choices; ++choice) {
      barrier_world next = world;
      next.choose(choice);
      if (seen.insert(next.fingerprint()).second) pending.push_back(std::move(next));
    }
  }
  found.states = seen.size();
  ensure(found.states < states_max, "an exploration is exhaustive");
  return found;
}

} // namespace weir::testing
