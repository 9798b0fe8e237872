#include "dataplane/claim_sampler.hpp"

#include "dataplane/token_split.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace weir::dataplane {

namespace {

/// Rows that are claimed together or not at all.
struct claim_unit {
  std::vector<row_id> rows;
  std::uint64_t tokens = 0;
};

/// The first complete groups, in the order in which they become complete.
std::vector<claim_unit> complete_units(std::span<const claim_candidate> candidates,
                                       std::size_t group_size, std::size_t units_max) {
  std::vector<claim_unit> complete;
  std::unordered_map<std::int64_t, claim_unit> begun;
  for (const claim_candidate& one : candidates) {
    if (complete.size() == units_max) break;
    if (group_size == 1) {
      complete.push_back({{one.row}, one.tokens});
      continue;
    }
    claim_unit& group = begun[one.group];
    group.rows.push_back(one.row);
    group.tokens += one.tokens;
    if (group.rows.size() < group_size) continue;
    complete.push_back(std::move(group));
    begun.erase(one.group);
  }
  return complete;
}

void append(std::vector<row_id>& to, std::span<const row_id> rows) {
  to.insert(to.end(), rows.begin(), rows.end());
}

std::string reader_text(reader_id who) {
  return "reader " + std::to_string(who.reader) + " of rank " + std::to_string(who.rank);
}

} // namespace

result<claim_sampler> claim_sampler::create(const sampler_options& options) {
  const auto refused = [](const std::string& text) {
    return failure(errc::invalid_argument, "sampler: " + text);
  };
  if (options.batch_rows == 0 || options.group_size == 0)
    return refused("a batch and a group have at least one row");
  if (options.ranks == 0 || options.readers == 0 || options.batches_max == 0)
    return refused("there is at least one rank, one reader and one batch");
  if (options.kind == sampler_kind::sequential && options.group_size != 1)
    return refused("groups of " + std::to_string(options.group_size) +
                   " rows are not kept together by the sequential kind: use complete_groups");
  if (options.batch_rows % options.group_size != 0)
    return refused("a batch of " + std::to_string(options.batch_rows) +
                   " rows is not a number of groups of " + std::to_string(options.group_size));
  return claim_sampler(options);
}

result<void> claim_sampler::check(reader_id who) const {
  if (who.rank < options_.ranks && who.reader < options_.readers) return {};
  return failure(errc::invalid_argument, reader_text(who) + " does not exist: there are " +
                                             std::to_string(options_.ranks) + " ranks of " +
                                             std::to_string(options_.readers) + " readers");
}

// ---- Choosing ----------------------------------------------------------------------------------

std::size_t claim_sampler::choice_rows() const {
  const bool together = options_.kind == sampler_kind::token_balanced;
  return options_.batch_rows * (together ? options_.ranks : 1);
}

std::optional<std::vector<rank_share>>
claim_sampler::choose(std::size_t rank, std::span<const claim_candidate> candidates,
                      bool last) const {
  const std::size_t wanted = choice_rows() / options_.group_size;
  auto units = complete_units(candidates, options_.group_size, wanted);
  const bool together = options_.kind == sampler_kind::token_balanced;
  const std::size_t parts = together ? options_.ranks : 1;
  units.resize(units.size() / parts * parts);
  if (units.empty() || (units.size() < wanted && !last)) return std::nullopt;
  if (!together) {
    rank_share share{.rank = rank, .rows = {}};
    for (const claim_unit& unit : units)
      append(share.rows, unit.rows);
    return std::vector{std::move(share)};
  }
  std::vector<std::uint64_t> tokens;
  for (const claim_unit& unit : units)
    tokens.push_back(unit.tokens);
  std::vector<rank_share> shares;
  for (const auto& members : split_evenly(tokens, parts)) {
    rank_share share{.rank = shares.size(), .rows = {}};
    for (const std::size_t member : members)
      append(share.rows, units[member].rows);
    shares.push_back(std::move(share));
  }
  return shares;
}

std::uint64_t claim_sampler::adopt(std::vector<rank_share> shares) {
  ensure(!full(), "a batch is chosen while there is room for it");
  remembered_batch batch;
  for (rank_share& share : shares)
    batch.push_back({share.rank, std::move(share.rows),
                     std::vector<reading>(options_.readers, reading::waiting)});
  batches_.emplace(next_batch_, std::move(batch));
  return next_batch_++;
}

// ---- Readers -----------------------------------------------------------------------------------

bool claim_sampler::remembered_share::all(reading state) const {
  return std::ranges::all_of(readers, [state](reading one) { return one == state; });
}

const claim_sampler::remembered_share* claim_sampler::find(std::size_t rank,
                                                           std::uint64_t batch) const {
  const auto at = batches_.find(batch);
  if (at == batches_.end()) return nullptr;
  const auto share = std::ranges::find(at->second, rank, &remembered_share::rank);
  return share == at->second.end() ? nullptr : &*share;
}

result<const claim_sampler::remembered_share*> claim_sampler::find_held(reader_id who,
                                                                        std::uint64_t batch) const {
  if (auto fine = check(who); !fine) return failure(std::move(fine.error()));
  const remembered_share* share = find(who.rank, batch);
  if (share == nullptr || share->readers[who.reader] != reading::held)
    return failure(errc::conflict, reader_text(who) + " does not hold batch " +
                                       std::to_string(batch) +
                                       ": it has acknowledged or released it, or never got it");
  return share;
}

void claim_sampler::mark(reader_id who, std::uint64_t batch, reading state) {
  const remembered_share* share = find(who.rank, batch);
  ensure(share != nullptr, "a batch that is marked is remembered");
  const auto at = static_cast<std::size_t>(share - batches_.at(batch).data());
  batches_.at(batch)[at].readers[who.reader] = state;
}

std::optional<claim_sampler::waiting_share> claim_sampler::waiting(reader_id who) const {
  for (const auto& [number, batch] : batches_)
    for (const remembered_share& share : batch)
      if (share.rank == who.rank && share.readers[who.reader] == reading::waiting)
        return waiting_share{number, share.rows};
  return std::nullopt;
}

void claim_sampler::deliver(reader_id who, std::uint64_t batch) {
  const remembered_share* share = find(who.rank, batch);
  ensure(share != nullptr && share->readers[who.reader] == reading::waiting,
         "what is delivered waits for its reader");
  mark(who, batch, reading::held);
}

result<std::vector<row_id>> claim_sampler::consumed_by(reader_id who, std::uint64_t batch) const {
  const auto share = find_held(who, batch);
  if (!share) return failure(share.error());
  const auto acknowledged = std::ranges::count((*share)->readers, reading::acknowledged);
  if (static_cast<std::size_t>(acknowledged) + 1 < options_.readers) return std::vector<row_id>();
  return (*share)->rows;
}

void claim_sampler::acknowledge(reader_id who, std::uint64_t batch) {
  mark(who, batch, reading::acknowledged);
  const bool done = std::ranges::all_of(batches_.at(batch), [](const remembered_share& share) {
    return share.all(reading::acknowledged);
  });
  if (done) batches_.erase(batch);
}

result<std::vector<row_id>> claim_sampler::freed_by(reader_id who, std::uint64_t batch) const {
  const auto share = find_held(who, batch);
  if (!share) return failure(share.error());
  std::vector<row_id> rows;
  std::size_t needed = 0;
  for (const remembered_share& one : batches_.at(batch)) {
    needed += one.readers.size() -
              static_cast<std::size_t>(std::ranges::count(one.readers, reading::waiting));
    append(rows, one.rows);
  }
  return needed > 1 ? std::vector<row_id>() : rows;
}

void claim_sampler::release(reader_id who, std::uint64_t batch) {
  mark(who, batch, reading::waiting);
  const bool unused = std::ranges::all_of(batches_.at(batch), [](const remembered_share& share) {
    return share.all(reading::waiting);
  });
  if (unused) batches_.erase(batch);
}

std::vector<std::uint64_t> claim_sampler::held(reader_id who) const {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, batch] : batches_)
    for (const remembered_share& share : batch)
      if (share.rank == who.rank && share.readers[who.reader] == reading::held)
        numbers.push_back(number);
  return numbers;
}

bool claim_sampler::may_come_back(reader_id who) const {
  return std::ranges::any_of(batches_, [this, who](const auto& numbered) {
    const auto& [number, batch] = numbered;
    const remembered_share* own = find(who.rank, number);
    if (own != nullptr && own->readers[who.reader] == reading::held) return false;
    return std::ranges::none_of(batch, [](const remembered_share& share) {
      return std::ranges::count(share.readers, reading::acknowledged) > 0;
    });
  });
}

std::vector<row_id> claim_sampler::forget(std::uint64_t batch) {
  const auto at = batches_.find(batch);
  if (at == batches_.end()) return {};
  std::vector<row_id> rows;
  for (const remembered_share& share : at->second)
    if (!share.all(reading::acknowledged)) append(rows, share.rows);
  batches_.erase(at);
  return rows;
}

std::vector<std::uint64_t> claim_sampler::batches() const {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, batch] : batches_)
    numbers.push_back(number);
  return numbers;
}

void claim_sampler::check_invariants() const {
  ensure(batches_.size() <= options_.batches_max, "batches are bounded");
  for (const auto& [number, batch] : batches_) {
    ensure(number < next_batch_, "a batch's number was handed out");
    ensure(!batch.empty(), "a batch has a share");
    std::size_t waiting = 0;
    std::size_t acknowledged = 0;
    for (const remembered_share& share : batch) {
      ensure(share.readers.size() == options_.readers, "every reader of a rank is known");
      ensure(share.rows.size() % options_.group_size == 0, "a share has whole groups");
      waiting += share.all(reading::waiting) ? 1 : 0;
      acknowledged += share.all(reading::acknowledged) ? 1 : 0;
    }
    ensure(waiting < batch.size(), "a batch that nobody needs is forgotten");
    ensure(acknowledged < batch.size(), "a batch that all have acknowledged is forgotten");
  }
}

} // namespace weir::dataplane
