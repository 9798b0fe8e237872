#include "dataplane/streaming_loader.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::size_t rows_all = std::numeric_limits<std::size_t>::max();
/// Candidates that are looked at first, as a multiple of a choice; further ones only as needed.
constexpr std::size_t first_look = 2;
constexpr std::size_t further_look = 4;

std::size_t times(std::size_t rows, std::size_t factor) {
  return rows > rows_all / factor ? rows_all : rows * factor;
}

std::string text_of(const loader_options& options) {
  return "partition \"" + options.partition + "\", consumer \"" + options.consumer + "\"";
}

} // namespace

result<std::unique_ptr<streaming_loader>> streaming_loader::create(store& rows,
                                                                   loader_options options) {
  const auto refused = [&options](const std::string& text) {
    return failure(errc::invalid_argument, text_of(options) + ": " + text);
  };
  if (options.partition.empty() || options.consumer.empty())
    return refused("a loader has a partition and a consumer, each with a name");
  if (options.fields.empty()) return refused("a batch has at least one field");
  auto sampler = claim_sampler::create(options.sampler);
  if (!sampler) return refused(sampler.error().text);
  if (options.sampler.group_size > 1 && options.group_tag.empty())
    return refused("groups of more than one row need group_tag");
  if (options.sampler.kind == sampler_kind::token_balanced && options.tokens_tag.empty())
    return refused("the token-balanced kind needs tokens_tag");
  return std::unique_ptr<streaming_loader>(
      new streaming_loader(rows, std::move(options), std::move(*sampler)));
}

streaming_loader::streaming_loader(store& rows, loader_options options, claim_sampler sampler)
    : store_(rows), options_(std::move(options)), sampler_(std::move(sampler)) {}

streaming_loader::~streaming_loader() {
  for (const std::uint64_t number : sampler_.batches())
    give_up(number);
}

// ---- Candidates --------------------------------------------------------------------------------

result<std::vector<row_id>> streaming_loader::available(std::size_t rows_max,
                                                        std::vector<std::string> fields) const {
  auto found = store_.query(options_.partition, {.tags = options_.tags,
                                                 .produced = std::move(fields),
                                                 .available_to = options_.consumer,
                                                 .rows_max = rows_max});
  if (!found && found.error().code == errc::not_found) return std::vector<row_id>();
  return found;
}

result<std::vector<std::int64_t>> streaming_loader::whole_numbers(std::span<const row_id> rows,
                                                                  const std::string& tag) const {
  const auto values = store_.tag_values(options_.partition, rows, tag);
  if (!values) return failure(values.error());
  std::vector<std::int64_t> numbers;
  numbers.reserve(rows.size());
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const auto* number = (*values)[at] ? std::get_if<std::int64_t>(&*(*values)[at]) : nullptr;
    if (number == nullptr)
      return failure(
          errc::invalid_argument,
          "partition \"" + options_.partition + "\", row " + std::to_string(rows[at].value) +
              ": tag \"" + tag + "\" " + ((*values)[at] ? "is not an integer" : "is missing") +
              ", and consumer \"" + options_.consumer + "\" needs it: set it, or clear the row");
    numbers.push_back(*number);
  }
  return numbers;
}

result<std::vector<claim_candidate>>
streaming_loader::describe(std::span<const row_id> rows) const {
  std::vector<claim_candidate> candidates;
  candidates.reserve(rows.size());
  for (const row_id row : rows)
    candidates.push_back({.row = row, .group = 0, .tokens = 0});
  if (rows.empty()) return candidates;
  if (options_.sampler.group_size > 1) {
    const auto groups = whole_numbers(rows, options_.group_tag);
    if (!groups) return failure(groups.error());
    for (std::size_t at = 0; at < rows.size(); ++at)
      candidates[at].group = (*groups)[at];
  }
  if (options_.sampler.kind != sampler_kind::token_balanced) return candidates;
  const auto tokens = whole_numbers(rows, options_.tokens_tag);
  if (!tokens) return failure(tokens.error());
  for (std::size_t at = 0; at < rows.size(); ++at) {
    constexpr std::int64_t tokens_max = std::int64_t{1} << 40;
    if ((*tokens)[at] < 0 || (*tokens)[at] > tokens_max)
      return failure(errc::invalid_argument, "partition \"" + options_.partition + "\", row " +
                                                 std::to_string(rows[at].value) + ": tag \"" +
                                                 options_.tokens_tag + "\" is " +
                                                 std::to_string((*tokens)[at]) +
                                                 ", which is no number of tokens");
    candidates[at].tokens = static_cast<std::uint64_t>((*tokens)[at]);
  }
  return candidates;
}

// ---- The next batch ----------------------------------------------------------------------------

result<loader_answer> streaming_loader::next(reader_id who, batch recycled) {
  if (auto fine = sampler_.check(who); !fine) return failure(std::move(fine.error()));
  if (sampler_.waiting(who)) return load_waiting(who, std::move(recycled));
  if (sampler_.full()) return loader_answer(not_yet{.rows_available = 0, .peers_behind = true});
  std::size_t looked_at = times(sampler_.choice_rows(), first_look);
  for (;;) {
    const auto rows = available(looked_at, options_.fields);
    if (!rows) return failure(rows.error());
    const auto candidates = describe(*rows);
    if (!candidates) return failure(candidates.error());
    const bool all = rows->size() < looked_at;
    auto shares = sampler_.choose(who.rank, *candidates, finished_ && all);
    if (shares) return load_shares(who, std::move(*shares), std::move(recycled));
    if (all) return lacking(who, rows->size());
    looked_at = times(looked_at, further_look);
  }
}

result<loader_answer> streaming_loader::load_waiting(reader_id who, batch recycled) {
  const auto share = sampler_.waiting(who);
  auto values = store_.get(options_.partition, share->rows, options_.fields, std::move(recycled));
  if (!values) {
    if (values.error().code == errc::not_found) give_up(share->batch);
    return failure(std::move(values.error()));
  }
  const std::uint64_t number = share->batch;
  sampler_.deliver(who, number);
  return loader_answer(loaded_batch{number, std::move(*values)});
}

result<loader_answer> streaming_loader::load_shares(reader_id who, std::vector<rank_share> shares,
                                                    batch recycled) {
  std::vector<row_id> claimed;
  for (const rank_share& share : shares)
    claimed.insert(claimed.end(), share.rows.begin(), share.rows.end());
  const auto own = std::ranges::find(shares, who.rank, &rank_share::rank);
  ensure(own != shares.end(), "a choice has a share for the rank that it is made for");
  // What can fail comes before what others see.
  auto values = store_.get(options_.partition, own->rows, options_.fields, std::move(recycled));
  if (!values) return failure(std::move(values.error()));
  if (auto done = store_.claim(options_.partition, options_.consumer, claimed); !done)
    return failure(std::move(done.error()));
  const std::uint64_t number = sampler_.adopt(std::move(shares));
  sampler_.deliver(who, number);
  return loader_answer(loaded_batch{number, std::move(*values)});
}

result<loader_answer> streaming_loader::lacking(reader_id who, std::size_t rows_available) const {
  if (!finished_ || sampler_.may_come_back(who))
    return loader_answer(not_yet{.rows_available = rows_available, .peers_behind = false});
  const auto left = available(rows_all, {});
  if (!left) return failure(left.error());
  return loader_answer(finished{left->size()});
}

// ---- Settling ----------------------------------------------------------------------------------

std::vector<row_id> streaming_loader::present_of(std::vector<row_id> rows) const {
  std::erase_if(rows, [this](row_id row) { return !store_.describe(options_.partition, row); });
  return rows;
}

std::vector<row_id> streaming_loader::claimed_of(std::vector<row_id> rows) const {
  std::erase_if(rows, [this](row_id row) {
    const auto found = store_.describe(options_.partition, row);
    return !found || std::ranges::find(found->consumers,
                                       std::pair(options_.consumer, consumer_state::claimed)) ==
                         found->consumers.end();
  });
  return rows;
}

result<void> streaming_loader::settle(settling verb, std::vector<row_id> rows) {
  if (rows.empty()) return {};
  auto done = (store_.*verb)(options_.partition, options_.consumer, rows);
  if (done || done.error().code != errc::not_found) return done;
  return (store_.*verb)(options_.partition, options_.consumer, present_of(std::move(rows)));
}

result<void> streaming_loader::acknowledge(std::uint64_t number, reader_id who) {
  auto rows = sampler_.consumed_by(who, number);
  if (!rows) return failure(std::move(rows.error()));
  auto done = settle(&store::acknowledge, std::move(*rows));
  if (done) sampler_.acknowledge(who, number);
  return done;
}

result<void> streaming_loader::release(std::uint64_t number, reader_id who) {
  auto rows = sampler_.freed_by(who, number);
  if (!rows) return failure(std::move(rows.error()));
  auto done = settle(&store::release, std::move(*rows));
  if (done) sampler_.release(who, number);
  return done;
}

result<std::size_t> streaming_loader::release_held(reader_id who) {
  if (auto fine = sampler_.check(who); !fine) return failure(std::move(fine.error()));
  const auto numbers = sampler_.held(who);
  for (const std::uint64_t number : numbers)
    if (auto done = release(number, who); !done) return failure(std::move(done.error()));
  return numbers.size();
}

void streaming_loader::give_up(std::uint64_t number) {
  const auto rows = claimed_of(sampler_.forget(number));
  if (rows.empty()) return;
  const auto done = store_.release(options_.partition, options_.consumer, rows);
  ensure(done.has_value(), "rows that are claimed can be released");
}

void streaming_loader::check_invariants() const {
  sampler_.check_invariants();
}

} // namespace weir::dataplane
