/// A small world around barrier_state: two origins with gates, two owners with captures, and
/// messages in flight that may be delivered in any order, doubled or lost. Whatever can happen next
/// is a list of choices, so that a test can take all of them.
///
/// Each origin runs transactions that change both owners, one request after the other, the second
/// origin in the opposite order. A published cut must hold each transaction in both owners or in
/// neither.
#pragma once

#include "actors/checkpoint/barrier_state.hpp"
#include "actors/checkpoint/owner_capture.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::testing {

/// Rules of the specification, switched off: the exploration must notice.
struct broken_rules {
  bool settles_early = false; ///< 1: a gate says Quiesced while a lease is out
  bool always_held = false;   ///< 3: a gate that opened says that it held
  bool no_taint = false;      ///< 7: an owner does not taint
};

struct world_limits {
  std::uint8_t transactions = 1; ///< Of the first origin.
  std::uint8_t transactions_of_second = 1;
  std::uint8_t requests = 1; ///< Checkpoints that are asked for.
  std::uint8_t losses = 0;
  std::uint8_t duplicates = 0;
  std::uint8_t self_opens = 0;
  std::uint8_t timeouts = 0;
  std::uint8_t crashes = 0; ///< Of the checkpoint actor; a new life follows.
  broken_rules broken = {};
};

class barrier_world {
public:
  static constexpr std::size_t parts = 2;

  explicit barrier_world(const world_limits& limits) : left_(limits), barrier_(make_barrier(1)) {
    gates_[0].left = limits.transactions;
    gates_[1].left = limits.transactions_of_second;
  }

  /// Number of things that can happen next.
  [[nodiscard]] std::size_t choices() const { return list().size(); }
  /// Lets one of them happen.
  void choose(std::size_t choice);
  /// Everything that a future depends on, as bytes.
  [[nodiscard]] std::string fingerprint() const;

  /// Nothing can happen any more, and something is not as it should be.
  [[nodiscard]] bool stuck() const;
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
  struct gate {
    bool closed = false;
    bool quiesced_due = false;
    epoch_id newest = {};
    bool held_answer = false; ///< What a repeated Resume is told.
    bool resumed = false;
    bool cut_short = false; ///< Opened by itself since its Quiesced.
    // The transaction under way.
    bool active = false;
    std::uint8_t step = 0;
    epoch_id granted = {};
    std::uint8_t left = 0;
    std::uint8_t done = 0;
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
    request_step,
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
    return {{}, incarnation(1), life, {"0", "1"}, {"0", "1"}, false};
  }
  [[nodiscard]] std::vector<choice> list() const;
  void perform(const barrier_effects& effects);
  void send(kind what, std::string_view to, epoch_id epoch, bool to_owner);
  void deliver(message sent);
  void deliver_to_gate(const message& sent, gate& at);
  void deliver_to_owner(const message& sent, owner& at);
  void settle(std::size_t origin);
  void step(std::size_t origin);
  void publish();
  void answer(kind what, std::uint8_t part, epoch_id epoch, bool flag);
  [[nodiscard]] bool is_consistent() const { return owners_[0].captured == owners_[1].captured; }

  world_limits left_;
  barrier_state barrier_;
  std::uint64_t life_ = 1;
  std::array<gate, parts> gates_;
  std::array<owner, parts> owners_;
  std::vector<message> flying_;
  /// What the running epoch's accepted answers said: the barrier's state depends on it.
  std::string accepted_;
  unsigned published_ = 0;
  bool torn_ = false;
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
    if (gates_[each].active) all.push_back({act::request_step, each});
    if (!gates_[each].active && !gates_[each].closed && gates_[each].left > 0)
      all.push_back({act::begin, each});
    if (gates_[each].closed && left_.self_opens > 0) all.push_back({act::self_open, each});
  }
  if (left_.requests > 0) all.push_back({act::request, 0});
  if (barrier_.deadline() && left_.timeouts > 0) all.push_back({act::timeout, 0});
  if (left_.crashes > 0 && barrier_.now_in() != barrier_state::stage::idle)
    all.push_back({act::crash, 0});
  if (barrier_.now_in() == barrier_state::stage::publishing) all.push_back({act::publish, 0});
  // Deadlines end what nothing else does.
  if (all.empty() && barrier_.deadline()) all.push_back({act::timeout, 0});
  for (std::uint8_t each = 0; each < parts && all.empty(); ++each)
    if (gates_[each].closed) all.push_back({act::self_open, each});
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
  case act::begin: {
    gate& at = gates_[what.index];
    at.active = true;
    at.step = 0;
    at.granted = at.newest;
    --at.left;
    break;
  }
  case act::request_step:
    step(what.index);
    break;
  case act::self_open:
    spend(left_.self_opens);
    gates_[what.index].closed = false;
    gates_[what.index].cut_short = true;
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

/// One request of the transaction, applied and answered; the lease is released after the last.
inline void barrier_world::step(std::size_t origin) {
  gate& from = gates_[origin];
  owner& at = owners_[origin == 0 ? from.step : parts - 1 - from.step];
  at.applied = static_cast<std::uint16_t>(at.applied | (1U << (4 * origin + from.done)));
  if (!left_.broken.no_taint) at.captures.applied(from.granted);
  if (++from.step < parts) return;
  from.active = false;
  ++from.done;
  settle(origin);
}

inline void barrier_world::settle(std::size_t origin) {
  gate& at = gates_[origin];
  const bool is_settled = !at.active || left_.broken.settles_early;
  if (!at.closed || !at.quiesced_due || !is_settled) return;
  at.quiesced_due = false;
  answer(kind::quiesced, static_cast<std::uint8_t>(origin), at.newest, false);
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
    deliver_to_gate(sent, gates_[sent.part]);
    return;
  case kind::abort:
    if (sent.to_owner)
      deliver_to_owner(sent, owners_[sent.part]);
    else
      deliver_to_gate(sent, gates_[sent.part]);
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

inline void barrier_world::deliver_to_gate(const message& sent, gate& at) {
  if (sent.what == kind::quiesce) {
    if (sent.epoch <= at.newest) return;
    at.newest = sent.epoch;
    at.closed = at.quiesced_due = true;
    at.resumed = at.cut_short = false;
    settle(sent.part);
    return;
  }
  const bool held = at.closed && !at.cut_short && at.newest == sent.epoch && !at.active;
  bool answer_held = false;
  if (sent.epoch >= at.newest) {
    if (sent.epoch > at.newest || !at.resumed) at.held_answer = held && sent.what == kind::resume;
    at.newest = sent.epoch;
    at.resumed = true;
    at.closed = at.quiesced_due = false;
    answer_held = at.held_answer;
  }
  if (left_.broken.always_held) answer_held = true;
  if (sent.what == kind::resume) answer(kind::resumed, sent.part, sent.epoch, answer_held);
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
         std::ranges::any_of(
             gates_, [](const gate& each) { return each.closed || each.active || each.left != 0; });
}

inline std::string barrier_world::fingerprint() const {
  std::string bytes = accepted_ + (torn_ ? 'x' : '.') + (published_ > 0 ? 'p' : '.');
  const auto put = [&bytes](std::uint64_t value) { bytes += static_cast<char>(value); };
  const auto put_epoch = [&](epoch_id epoch) {
    put(epoch.life);
    put(epoch.number);
  };
  put(255);
  for (const auto budget : {left_.requests, left_.losses, left_.duplicates, left_.self_opens,
                            left_.timeouts, left_.crashes})
    put(budget);
  put(static_cast<std::uint64_t>(barrier_.now_in()));
  put_epoch(barrier_.epoch());
  for (const std::string& name : barrier_.unanswered())
    bytes += name;
  put(254);
  for (const gate& each : gates_) {
    for (const bool flag : {each.closed, each.quiesced_due, each.held_answer, each.resumed,
                            each.cut_short, each.active})
      put(flag ? 1 : 0);
    put(each.step);
    put_epoch(each.newest);
    if (each.active) put_epoch(each.granted);
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

} // namespace weir::testing
