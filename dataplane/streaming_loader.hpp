/// Batches of committed rows, one after the other, for the readers of one consumer.
///
///   next -> claim -> get -> the reader's -> acknowledge -> consumed
///                                        -> release     -> available again (claim_sampler.hpp)
///
/// It never waits. Short of rows it says `not_yet`, and the caller asks again when it was told of
/// new ones; once the producer has called `finish` it gives out what is left and then says
/// `finished`. What is claimed and not acknowledged goes back with the loader, so that one that is
/// dropped loses nothing. A restore of the store takes the claims of the cut with it: drop the
/// loader, restore, `release_all` of its consumer, and make another.
///
///     auto loader = streaming_loader::create(rows, {.partition = "train", .consumer = "trainer",
///                                                   .fields = {"tokens"}});
///     auto answer = (*loader)->next();
///     if (auto* ready = std::get_if<loaded_batch>(&*answer)) {
///       train(ready->values);
///       (*loader)->acknowledge(ready->number);
///     }
///
/// Threads: used by the thread of the store. The store outlives it.
#pragma once

#include "dataplane/batch.hpp"
#include "dataplane/claim_sampler.hpp"
#include "dataplane/row.hpp"
#include "dataplane/store.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weir::dataplane {

struct loader_options {
  std::string partition;
  std::string consumer;
  /// What a batch has; a row without one of them is not claimed yet.
  std::vector<std::string> fields;
  /// Conditions on rows, all of which hold.
  std::vector<tag_range> tags;
  /// Integer tag with the number of a row's group; needed for groups of more than one row.
  std::string group_tag;
  /// Integer tag with the tokens of a row; needed by the token-balanced kind.
  std::string tokens_tag;
  sampler_options sampler;
};

/// A reader's batch. The number is that of every rank and reader that shares it.
struct loaded_batch {
  std::uint64_t number = 0;
  batch values;
};

/// There is no whole batch at present.
struct not_yet {
  /// Rows that could be claimed, too few or in incomplete groups.
  std::size_t rows_available = 0;
  /// Whether it is for peers, that are as many batches behind as may be, and not for rows.
  bool peers_behind = false;
};

/// Nothing more will come for this reader, unless it releases what it holds itself.
struct finished {
  /// Committed rows that meet the conditions and were never claimed: without a field of the batch,
  /// in groups that stayed incomplete, or too few for all ranks.
  std::size_t rows_left = 0;
};

using loader_answer = std::variant<loaded_batch, not_yet, finished>;

class streaming_loader {
public:
  /// `invalid_argument` names what is missing or does not fit. A partition that does not exist yet
  /// is only empty.
  [[nodiscard]] static result<std::unique_ptr<streaming_loader>> create(store& rows,
                                                                        loader_options options);
  streaming_loader(const streaming_loader&) = delete;
  streaming_loader& operator=(const streaming_loader&) = delete;
  /// Releases every claim that is not acknowledged by all readers that it is for.
  ~streaming_loader();

  /// The next batch of a reader; the buffers of `recycled` (an earlier one) are used again. An
  /// error changes nothing, but for `not_found`: a row of a batch that waited for this reader was
  /// cleared. Then the batch is given up for all its readers, and its other rows go back.
  /// `invalid_argument`: no such reader, or a row without the group or tokens that it needs.
  [[nodiscard]] result<loader_answer> next(reader_id who = {}, batch recycled = {});
  /// This reader is done with a batch; its rows become consumed when all readers of its rank are.
  /// Rows that were cleared meanwhile are nobody's any more. `conflict`: it does not hold the
  /// batch, or somebody else released a row.
  [[nodiscard]] result<void> acknowledge(std::uint64_t number, reader_id who = {});
  /// This reader gives a batch back. It is the next that it gets, unless nobody needs the batch:
  /// then its rows are available to any. Errors as for `acknowledge`.
  [[nodiscard]] result<void> release(std::uint64_t number, reader_id who = {});
  /// Gives back whatever this reader holds, for it died, and returns how many batches. An error
  /// leaves the batch that it is about, and later ones, as they are.
  [[nodiscard]] result<std::size_t> release_held(reader_id who);
  /// The producer commits no more rows.
  void finish() { finished_ = true; }

  [[nodiscard]] const loader_options& options() const { return options_; }
  /// Aborts if a batch is remembered that should not be.
  void check_invariants() const;

private:
  streaming_loader(store& rows, loader_options options, claim_sampler sampler);

  /// Rows that could be claimed, at most `rows_max`; none if there is no partition yet.
  [[nodiscard]] result<std::vector<row_id>> available(std::size_t rows_max,
                                                      std::vector<std::string> fields) const;
  [[nodiscard]] result<std::vector<claim_candidate>> describe(std::span<const row_id> rows) const;
  [[nodiscard]] result<std::vector<std::int64_t>> whole_numbers(std::span<const row_id> rows,
                                                                const std::string& tag) const;

  [[nodiscard]] result<loader_answer> load_waiting(reader_id who, batch recycled);
  [[nodiscard]] result<loader_answer> load_shares(reader_id who, std::vector<rank_share> shares,
                                                  batch recycled);
  [[nodiscard]] result<loader_answer> lacking(reader_id who, std::size_t rows_available) const;
  using settling = result<void> (store::*)(std::string_view partition, std::string_view consumer,
                                           std::span<const row_id> rows);
  /// Acknowledges or releases claimed rows; those that were cleared meanwhile are left out.
  [[nodiscard]] result<void> settle(settling verb, std::vector<row_id> rows);
  /// Those that this consumer claims in the store.
  [[nodiscard]] std::vector<row_id> claimed_of(std::vector<row_id> rows) const;
  /// Those that are still there.
  [[nodiscard]] std::vector<row_id> present_of(std::vector<row_id> rows) const;
  void give_up(std::uint64_t number);

  store& store_;
  loader_options options_;
  claim_sampler sampler_;
  bool finished_ = false;
};

} // namespace weir::dataplane
