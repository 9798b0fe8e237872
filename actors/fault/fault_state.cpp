#include "actors/fault/fault_state.hpp"

#include <algorithm>
#include <utility>

namespace weir {

std::string_view to_string(fault_kind kind) noexcept {
  switch (kind) {
  case fault_kind::pass:
    return "pass";
  case fault_kind::drop:
    return "drop";
  case fault_kind::delay:
    return "delay";
  case fault_kind::duplicate:
    return "duplicate";
  case fault_kind::reorder:
    return "reorder";
  case fault_kind::corrupt:
    return "corrupt";
  case fault_kind::refuse:
    return "refuse";
  case fault_kind::kill_actor:
    return "kill the actor";
  case fault_kind::kill_process:
    return "kill the process";
  }
  return "unknown fault";
}

fault_rule& fault_rule::chance(double probability) {
  ensure(probability >= 0 && probability <= 1, "a probability is between 0 and 1");
  probability_ = probability;
  return *this;
}

fault_rule& fault_rule::from(std::uint64_t n) {
  ensure(n > 0, "messages are counted from 1");
  from_ = n;
  return *this;
}

fault_rule& fault_rule::times(std::uint64_t count) {
  ensure(count > 0, "a rule strikes at least once");
  times_ = count;
  return *this;
}

fault_trigger::fault_trigger(std::optional<message_type> type, std::optional<fault_side> side,
                             std::function<bool(const payload_ptr&)> likes)
    : type_(type), side_(side), likes_(std::move(likes)) {}

fault_rule fault_trigger::rule(fault_effect effect) const {
  fault_rule made;
  made.type_ = type_;
  made.side_ = side_;
  made.likes_ = likes_;
  made.effect_ = std::move(effect);
  return made;
}

fault_rule fault_trigger::drop() const {
  return rule({.kind = fault_kind::drop});
}

fault_rule fault_trigger::delay(std::chrono::nanoseconds shortest,
                                std::chrono::nanoseconds longest) const {
  ensure(shortest.count() >= 0 && shortest <= longest, "a delay is drawn from a range");
  return rule({.kind = fault_kind::delay, .shortest = shortest, .longest = longest});
}

fault_rule fault_trigger::duplicate(std::uint32_t copies) const {
  ensure(copies > 0, "a duplicate is one copy at least");
  return rule({.kind = fault_kind::duplicate, .count = copies});
}

fault_rule fault_trigger::reorder(std::uint32_t span, std::chrono::nanoseconds hold) const {
  ensure(span > 0, "a message that is reordered is overtaken");
  return rule({.kind = fault_kind::reorder, .longest = hold, .count = span});
}

fault_rule fault_trigger::corrupt() const {
  return rule({.kind = fault_kind::corrupt});
}

fault_rule fault_trigger::refuse(errc code, std::string text) const {
  return rule({.kind = fault_kind::refuse, .code = code, .text = std::move(text)});
}

fault_rule fault_trigger::kill() const {
  return rule({.kind = fault_kind::kill_actor});
}

fault_rule fault_trigger::kill_process() const {
  return rule({.kind = fault_kind::kill_process});
}

fault_state::fault_state(fault_plan plan, random_source random)
    : plan_(std::move(plan)), random_(random), tallies_(plan_.rules.size()) {}

fault_effect fault_state::decide(fault_side side, const payload_ptr& content) {
  for (std::size_t i = 0; i < plan_.rules.size(); ++i) {
    const fault_rule& rule = plan_.rules[i];
    if (!matches(rule, side, content) || !strikes(rule, tallies_[i])) continue;
    fault_effect effect = rule.effect_;
    if (effect.kind == fault_kind::delay && effect.shortest < effect.longest) {
      const auto range = static_cast<std::uint64_t>((effect.longest - effect.shortest).count());
      const std::uint64_t drawn = random_.below(range + 1);
      effect.shortest += std::chrono::nanoseconds(static_cast<std::int64_t>(drawn));
      effect.longest = effect.shortest;
    }
    return effect;
  }
  return {};
}

bool fault_state::matches(const fault_rule& rule, fault_side side, const payload_ptr& content) {
  if (rule.side_ && *rule.side_ != side) return false;
  if (rule.effect_.kind == fault_kind::corrupt && content == nullptr) return false;
  if (!rule.type_) return true;
  if (content == nullptr || content->type() != *rule.type_) return false;
  return !rule.likes_ || rule.likes_(content);
}

bool fault_state::strikes(const fault_rule& rule, tally& counted) {
  if (++counted.matched < rule.from_ || counted.struck >= rule.times_) return false;
  if (rule.probability_ < 1 && random_.unit() >= rule.probability_) return false;
  ++counted.struck;
  return true;
}

std::uint64_t fault_state::hold(fault_side side, std::uint32_t span) {
  ensure(span > 0, "a held message waits for somebody");
  const std::uint64_t overtaking = span == 1 ? 1 : 1 + random_.below(span);
  held_.push_back({++held_ever_, side, overtaking});
  return held_ever_;
}

void fault_state::went_past(fault_side side) {
  for (held_message& held : held_) {
    if (held.side == side) --held.left;
  }
  std::erase_if(held_, [](const held_message& held) { return held.left == 0; });
}

void fault_state::let_go(std::uint64_t number) {
  std::erase_if(held_, [number](const held_message& held) { return held.number == number; });
}

bool fault_state::holds(std::uint64_t number) const {
  return std::ranges::find(held_, number, &held_message::number) != held_.end();
}

error fault_state::damage(const frame& value) {
  constexpr int tries = 64;
  constexpr std::uint64_t flips_max = 8;
  const std::vector<std::byte> intact = encode(value);
  for (int i = 0; i < tries; ++i) {
    std::vector<std::byte> damaged = intact;
    const std::uint64_t flips = 1 + random_.below(flips_max);
    for (std::uint64_t flip = 0; flip < flips; ++flip) {
      const auto place = static_cast<std::size_t>(random_.below(damaged.size()));
      const std::uint64_t bit = random_.below(8);
      damaged[place] ^= std::byte{1} << bit;
    }
    if (const auto read = decode(damaged); !read) return read.error();
  }
  std::vector<std::byte> beheaded = intact;
  beheaded.front() ^= std::byte{1};
  const auto read = decode(beheaded);
  ensure(!read, "a frame that does not begin like one is refused");
  return read.error();
}

std::vector<std::uint64_t> fault_state::struck() const {
  std::vector<std::uint64_t> counts;
  for (const tally& each : tallies_)
    counts.push_back(each.struck);
  return counts;
}

} // namespace weir
