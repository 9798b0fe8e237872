#include "kernels/kv_cache.hpp"

#include <algorithm>
#include <string>

namespace weir::kernels {

kv_cache::kv_cache(const kv_cache_options& options) : options_(options) {
  ensure(options.blocks > 0, "a key-value cache has blocks");
  ensure(options.block_tokens > 0, "a block of the key-value cache holds tokens");
  ensure(options.sequences > 0, "a key-value cache has room for a sequence");
  ensure(options.context > 0, "a sequence of the key-value cache may have tokens");
  table_width_ = blocks_for(options.context);
  sequences_.resize(options.sequences);
  tables_.resize(std::size_t{options.sequences} * table_width_);
  references_.resize(options.blocks);
  free_blocks_.reserve(options.blocks);
  for (std::uint32_t block = options.blocks; block > 0; --block)
    free_blocks_.push_back(block - 1);
  free_slots_.reserve(options.sequences);
  for (std::uint32_t slot = options.sequences; slot > 0; --slot)
    free_slots_.push_back(slot - 1);
}

// -- observers ------------------------------------------------------------------------------------

std::uint32_t kv_cache::free_blocks() const noexcept {
  return static_cast<std::uint32_t>(free_blocks_.size());
}

std::span<const std::uint32_t> kv_cache::table(std::uint32_t slot) const {
  ensure(slot < sequences_.size(), "a slot is within the key-value cache");
  return {tables_.data() + std::size_t{slot} * table_width_, sequences_[slot].held};
}

std::uint32_t kv_cache::references(std::uint32_t block) const {
  ensure(block < references_.size(), "a block is within the key-value cache");
  return references_[block];
}

void kv_cache::check_invariants() const {
  std::vector<std::uint32_t> counted(references_.size(), 0);
  std::uint64_t promised = 0;
  std::uint32_t live = 0;
  for (std::uint32_t slot = 0; slot < sequences_.size(); ++slot) {
    const sequence& one = sequences_[slot];
    ensure(one.live || (one.held == 0 && one.promise == 0), "a free slot holds nothing");
    live += one.live ? 1 : 0;
    promised += one.promise;
    for (const std::uint32_t block : table(slot))
      ++counted[block];
  }
  ensure(counted == references_, "references of blocks are those of the tables");
  ensure(promised == promised_, "promises add up");
  ensure(live == live_, "live sequences add up");
  ensure(live + free_slots_.size() == sequences_.size(), "every slot is live or free");
  const auto unused = std::count(counted.begin(), counted.end(), 0U);
  ensure(static_cast<std::size_t>(unused) == free_blocks_.size(), "no block is lost");
  ensure(promised_ <= free_blocks_.size(), "every promise can be kept");
  for (const std::uint32_t block : free_blocks_)
    ensure(counted[block] == 0, "a free block is in no table");
}

// -- operations -----------------------------------------------------------------------------------

result<std::vector<std::uint32_t>> kv_cache::admit(const kv_group& group) {
  ensure(group.siblings > 0, "a group has siblings");
  ensure(group.prompt_tokens > 0, "a group has a prompt");
  ensure(group.prompt_tokens <= group.tokens_max, "a sequence has room for its prompt");
  ensure(group.tokens_max <= options_.context, "a sequence fits into the context");
  const std::uint32_t whole = blocks_for(group.tokens_max);
  const std::uint32_t shared = group.prompt_tokens / options_.block_tokens;
  const std::uint64_t needed =
      whole + std::uint64_t{group.siblings - 1} * std::uint64_t{whole - shared};
  const auto asked = [&](std::uint64_t blocks, std::uint64_t slots) {
    return "a group of " + std::to_string(group.siblings) + " sequences needs " +
           std::to_string(needed) + " cache blocks, of which there are " + std::to_string(blocks) +
           ", and " + std::to_string(group.siblings) + " slots, of which there are " +
           std::to_string(slots);
  };
  if (needed > options_.blocks || group.siblings > options_.sequences)
    return failure(errc::invalid_argument, asked(options_.blocks, options_.sequences) +
                                               " in all: raise kv_blocks or max_sequences");
  if (needed > free_blocks() - promised_ || group.siblings > free_slots_.size())
    return failure(errc::exhausted, asked(free_blocks() - promised_, free_slots_.size()) +
                                        " now: wait until sequences end");
  std::vector<std::uint32_t> slots;
  slots.reserve(group.siblings);
  for (std::uint32_t index = 0; index < group.siblings; ++index) {
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    sequences_[slot] = sequence{0, index == 0 ? whole : whole - shared, true};
    slots.push_back(slot);
  }
  live_ += group.siblings;
  promised_ += static_cast<std::uint32_t>(needed);
  return slots;
}

void kv_cache::extend(std::uint32_t slot, std::uint32_t tokens) {
  ensure(slot < sequences_.size(), "a slot is within the key-value cache");
  ensure(sequences_[slot].live, "only a live sequence grows");
  const std::uint32_t needed = blocks_for(tokens);
  while (sequences_[slot].held < needed)
    take_block(slot);
}

std::optional<kv_block_copy> kv_cache::fork(std::uint32_t leader, std::uint32_t sibling,
                                            std::uint32_t prompt_tokens) {
  ensure(leader != sibling, "a sequence is forked from another");
  ensure(sequences_[leader].live, "the leader of a fork is live");
  ensure(sequences_[sibling].live, "the sibling of a fork is live");
  ensure(sequences_[sibling].held == 0, "a sibling is forked before it holds anything");
  const std::uint32_t shared = prompt_tokens / options_.block_tokens;
  ensure(sequences_[leader].held >= blocks_for(prompt_tokens), "the leader holds its prompt");
  for (std::uint32_t index = 0; index < shared; ++index) {
    const std::uint32_t block = entry(leader, index);
    entry(sibling, index) = block;
    ++references_[block];
  }
  sequences_[sibling].held = shared;
  if (prompt_tokens % options_.block_tokens == 0) return std::nullopt;
  take_block(sibling);
  return kv_block_copy{entry(leader, shared), entry(sibling, shared)};
}

void kv_cache::release(std::uint32_t slot) {
  ensure(slot < sequences_.size(), "a slot is within the key-value cache");
  sequence& one = sequences_[slot];
  ensure(one.live, "a sequence ends once");
  for (std::uint32_t index = 0; index < one.held; ++index) {
    const std::uint32_t block = entry(slot, index);
    if (--references_[block] == 0) free_blocks_.push_back(block);
  }
  promised_ -= one.promise;
  --live_;
  one = sequence{};
  free_slots_.push_back(slot);
}

// -- private --------------------------------------------------------------------------------------

std::uint32_t kv_cache::blocks_for(std::uint32_t tokens) const {
  return tokens / options_.block_tokens + (tokens % options_.block_tokens == 0 ? 0 : 1);
}

std::uint32_t& kv_cache::entry(std::uint32_t slot, std::uint32_t index) {
  return tables_[std::size_t{slot} * table_width_ + index];
}

void kv_cache::take_block(std::uint32_t slot) {
  sequence& one = sequences_[slot];
  ensure(one.promise > 0, "a sequence takes no more blocks than it was promised");
  ensure(!free_blocks_.empty(), "a promised block is free");
  const std::uint32_t block = free_blocks_.back();
  free_blocks_.pop_back();
  references_[block] = 1;
  entry(slot, one.held) = block;
  ++one.held;
  --one.promise;
  --promised_;
}

} // namespace weir::kernels
