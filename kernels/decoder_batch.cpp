#include "kernels/decoder_batch.hpp"

#include <algorithm>
#include <string>

namespace weir::kernels {

namespace {

std::string name_of(const decode_request& request) {
  return "group " + std::to_string(request.tag) + ": ";
}

tl::unexpected<error> refused(const decode_request& request, const std::string& why) {
  return failure(errc::invalid_argument, name_of(request) + why);
}

} // namespace

decoder_batch::decoder_batch(const model_config& config, const decoder_options& options)
    : config_(config), options_(options), cache_({.blocks = options.kv_blocks,
                                                  .block_tokens = options.block_tokens,
                                                  .sequences = options.max_sequences,
                                                  .context = config.context}) {
  groups_.reserve(options.max_sequences);
  sequences_.resize(options.max_sequences);
  tokens_.resize(std::size_t{options.max_sequences} * config.context);
  segments_.reserve(options.max_sequences);
  emitted_.reserve(options.max_sequences);
  copies_.reserve(options.max_sequences);
}

// -- admission and abort --------------------------------------------------------------------------

result<void> decoder_batch::check(const decode_request& request) const {
  if (request.prompt.empty())
    return refused(request, "the prompt has no token: begin it with a start token");
  if (request.siblings == 0) return refused(request, "no sibling is asked for: ask for at least 1");
  if (request.max_new_tokens == 0)
    return refused(request, "max_new_tokens is 0: ask for at least 1");
  if (request.prompt.size() > config_.context ||
      request.max_new_tokens > config_.context - request.prompt.size())
    return refused(request, "a prompt of " + std::to_string(request.prompt.size()) +
                                " tokens and " + std::to_string(request.max_new_tokens) +
                                " new ones exceed the context of " +
                                std::to_string(config_.context));
  if (request.stop_tokens.size() > stop_tokens_max)
    return refused(request, std::to_string(request.stop_tokens.size()) +
                                " stop tokens: at most 16 are possible");
  for (std::size_t index = 0; index < request.prompt.size(); ++index)
    if (request.prompt[index] >= config_.vocabulary)
      return refused(request, "prompt token " + std::to_string(index) + " is " +
                                  std::to_string(request.prompt[index]) + ": the vocabulary has " +
                                  std::to_string(config_.vocabulary));
  if (const auto valid = validate(request.sampling); !valid)
    return refused(request, valid.error().text);
  const auto same_tag = [&](const group& other) { return other.tag == request.tag; };
  if (std::any_of(groups_.begin(), groups_.end(), same_tag))
    return failure(errc::already_exists, name_of(request) + "its tag is live: abort it first");
  return {};
}

result<void> decoder_batch::admit(const decode_request& request) {
  if (auto valid = check(request); !valid) return valid;
  const auto prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  // The last token is drawn but never computed, so it needs no place in the cache.
  auto slots = cache_.admit({.prompt_tokens = prompt_tokens,
                             .tokens_max = prompt_tokens + request.max_new_tokens - 1,
                             .siblings = request.siblings});
  if (!slots) return failure(slots.error().code, name_of(request) + slots.error().text);
  group admitted;
  admitted.tag = request.tag;
  admitted.sampling = request.sampling;
  admitted.randomness = sampling_stream(request.key);
  std::copy(request.stop_tokens.begin(), request.stop_tokens.end(), admitted.stop_tokens.begin());
  admitted.stop_count = static_cast<std::uint32_t>(request.stop_tokens.size());
  admitted.prompt_tokens = prompt_tokens;
  admitted.tokens_max = prompt_tokens + request.max_new_tokens;
  admitted.pinned_version = request.pinned_version;
  admitted.slots = std::move(*slots);
  for (std::uint32_t index = 0; index < request.siblings; ++index) {
    const std::uint32_t slot = admitted.slots[index];
    sequences_[slot] = sequence{request.first_sibling + index, 0, prompt_tokens, false};
    std::copy(request.prompt.begin(), request.prompt.end(), token_row(slot));
  }
  groups_.push_back(std::move(admitted));
  return {};
}

std::uint32_t decoder_batch::abort(std::uint64_t tag) {
  const auto found = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const group& other) { return other.tag == tag; });
  if (found == groups_.end()) return 0;
  const auto ended = static_cast<std::uint32_t>(found->slots.size());
  for (const std::uint32_t slot : found->slots)
    cache_.release(slot);
  groups_.erase(found);
  return ended;
}

void decoder_batch::recompute() {
  for (const group& owner : groups_)
    for (const std::uint32_t slot : owner.slots)
      if (!owner.pinned_version) sequences_[slot].computed = 0;
}

std::vector<std::uint64_t> decoder_batch::pinned_versions() const {
  std::vector<std::uint64_t> versions;
  for (const group& owner : groups_)
    if (owner.pinned_version) versions.push_back(*owner.pinned_version);
  return versions;
}

// -- one step -------------------------------------------------------------------------------------

std::uint32_t decoder_batch::shared_tokens(const group& owner) const {
  return owner.prompt_tokens / options_.block_tokens * options_.block_tokens;
}

std::span<const decode_segment> decoder_batch::plan() {
  segments_.clear();
  std::uint32_t budget = options_.prefill_tokens;
  for (std::uint32_t index = 0; index < groups_.size(); ++index)
    plan_group(index, budget);
  return segments_;
}

void decoder_batch::plan_group(std::uint32_t index, std::uint32_t& budget) {
  const group& owner = groups_[index];
  const std::uint32_t shared = owner.forked ? shared_tokens(owner) : owner.prompt_tokens;
  for (std::size_t member = 0; member < owner.slots.size(); ++member) {
    const std::uint32_t slot = owner.slots[member];
    const sequence& one = sequences_[slot];
    // What is shared is the leader's to compute.
    if (member > 0 && one.computed < shared) continue;
    const std::uint32_t pending = one.size - one.computed;
    ensure(pending > 0, "a live sequence has a token to compute");
    const std::uint32_t count = pending == 1 ? 1 : std::min(pending, budget);
    if (count == 0) continue;
    if (pending > 1) budget -= count;
    segments_.push_back({slot, one.computed, count, index, count == pending});
    cache_.extend(slot, one.computed + count);
  }
}

decoder_batch::committed decoder_batch::commit(std::span<const sampled_token> drawn,
                                               std::uint64_t version) {
  ensure(drawn.size() == sequences_.size(), "there is one draw per slot");
  emitted_.clear();
  copies_.clear();
  for (const decode_segment& segment : segments_) {
    sequences_[segment.slot].computed += segment.count;
    if (!segment.completes) continue;
    group& owner = groups_[segment.group];
    if (owner.forked)
      append(owner, segment.slot, drawn[segment.slot], version);
    else
      share_prompt(owner, drawn, version);
  }
  for (group& owner : groups_)
    settle(owner);
  segments_.clear();
  std::erase_if(groups_, [](const group& owner) { return owner.slots.empty(); });
  return {emitted_, copies_};
}

void decoder_batch::append(const group& owner, std::uint32_t slot, const sampled_token& drawn,
                           std::uint64_t version) {
  sequence& one = sequences_[slot];
  ensure(one.size < owner.tokens_max, "an unfinished sequence has room for a token");
  token_row(slot)[one.size] = drawn.token;
  ++one.size;
  finish_reason reason = finish_reason::none;
  const auto last_stop = owner.stop_tokens.begin() + owner.stop_count;
  if (std::find(owner.stop_tokens.begin(), last_stop, drawn.token) != last_stop)
    reason = finish_reason::stop;
  else if (one.size == owner.tokens_max)
    reason = finish_reason::length;
  one.finished = reason != finish_reason::none;
  emitted_.push_back({owner.tag, one.sibling, drawn.token, drawn.logprob, drawn.sampling_logprob,
                      owner.pinned_version.value_or(version), reason});
}

/// The leader has computed the prompt: every sibling gets its first token and, if it goes on, the
/// prompt's blocks.
void decoder_batch::share_prompt(group& owner, std::span<const sampled_token> drawn,
                                 std::uint64_t version) {
  const std::uint32_t leader = owner.slots.front();
  for (const std::uint32_t slot : owner.slots) {
    append(owner, slot, drawn[slot], version);
    sequences_[slot].computed = owner.prompt_tokens;
    if (slot == leader || sequences_[slot].finished) continue;
    if (const auto copy = cache_.fork(leader, slot, owner.prompt_tokens)) copies_.push_back(*copy);
  }
  owner.forked = true;
}

/// Lets the siblings go on past what the leader has computed for them, and ends the finished ones.
void decoder_batch::settle(group& owner) {
  const std::uint32_t shared = shared_tokens(owner);
  if (owner.forked && sequences_[owner.slots.front()].computed >= shared)
    for (const std::uint32_t slot : owner.slots)
      sequences_[slot].computed = std::max(sequences_[slot].computed, shared);
  std::erase_if(owner.slots, [&](std::uint32_t slot) {
    if (sequences_[slot].finished) cache_.release(slot);
    return sequences_[slot].finished;
  });
}

// -- tokens ---------------------------------------------------------------------------------------

std::span<const std::uint32_t> decoder_batch::tokens(std::uint32_t slot) const {
  return {tokens_.data() + std::size_t{slot} * config_.context, sequences_[slot].size};
}

std::uint32_t* decoder_batch::token_row(std::uint32_t slot) {
  return tokens_.data() + std::size_t{slot} * config_.context;
}

} // namespace weir::kernels
