/// Which rows a consumer claims next, and which of its readers gets them: the core of
/// `streaming_loader`, with no store, no I/O and no clock.
///
/// A consumer is read by data-parallel ranks, and each rank by one or more readers that must see
/// the same rows (tensor and pipeline parallel peers). What is chosen for a rank is remembered
/// until every reader of it has acknowledged it, so that one that is late, or died and asks again,
/// gets the very rows that the others got.
///
///   kind             TransferQueue       one choice
///   sequential       SequentialSampler   the first rows that are available, for a rank
///   complete_groups  GRPOGroupNSampler   the first complete groups, never part of one, for a rank
///   token_balanced   SeqlenBalanced...   complete groups for all ranks at once, equally many for
///                                        each, with nearly the same number of tokens
///   ranks, readers   RankAwareSampler    of any kind
///
/// A batch, per reader: waiting -> deliver -> held -> acknowledge -> acknowledged
///                                                -> release -> waiting
/// Once no reader holds or has acknowledged any of it, the whole batch is forgotten and its rows
/// are available again: ranks whose batches were chosen together never fall out of step.
#pragma once

#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace weir::dataplane {

enum class sampler_kind : std::uint8_t { sequential, complete_groups, token_balanced };

struct sampler_options {
  sampler_kind kind = sampler_kind::sequential;
  /// Rows of one rank's batch: a multiple of the group's.
  std::size_t batch_rows = 1;
  /// Rows of a group; 1 unless groups have a number.
  std::size_t group_size = 1;
  std::size_t ranks = 1;
  /// Of each rank.
  std::size_t readers = 1;
  /// Batches that are remembered at once: as far as a reader can be ahead of its peers.
  std::size_t batches_max = 256;
};

struct reader_id {
  std::size_t rank = 0;
  std::size_t reader = 0;

  friend bool operator==(const reader_id&, const reader_id&) = default;
};

/// A row that could be claimed.
struct claim_candidate {
  row_id row;
  /// Equal for the rows of one group.
  std::int64_t group = 0;
  std::uint64_t tokens = 0;
};

/// What a choice gives one rank.
struct rank_share {
  std::size_t rank = 0;
  std::vector<row_id> rows;
};

class claim_sampler {
public:
  /// `invalid_argument` names the options that do not fit.
  [[nodiscard]] static result<claim_sampler> create(const sampler_options& options);

  [[nodiscard]] const sampler_options& options() const { return options_; }
  /// `invalid_argument`: there is no such reader.
  [[nodiscard]] result<void> check(reader_id who) const;

  // ---- Choosing --------------------------------------------------------------------------------

  /// Rows of a whole choice.
  [[nodiscard]] std::size_t choice_rows() const;
  /// What is claimed next for this rank, and with it for others; rows are taken, and groups counted
  /// as complete, in the order of the candidates, so that more candidates change no choice. Nothing
  /// if they do not suffice. `last`: no more will come, less than a batch will do (but never part
  /// of a group, nor fewer groups for one rank than for another).
  [[nodiscard]] std::optional<std::vector<rank_share>>
  choose(std::size_t rank, std::span<const claim_candidate> candidates, bool last) const;
  /// Whether as many batches are remembered as may be.
  [[nodiscard]] bool full() const { return batches_.size() >= options_.batches_max; }
  /// Remembers a choice whose rows are claimed now, and returns its number. @pre not full
  std::uint64_t adopt(std::vector<rank_share> shares);

  // ---- Readers ---------------------------------------------------------------------------------

  struct waiting_share {
    std::uint64_t batch = 0;
    std::span<const row_id> rows;
  };
  /// The oldest share that waits for this reader. The rows last until the next change.
  [[nodiscard]] std::optional<waiting_share> waiting(reader_id who) const;
  /// @pre it waits for this reader
  void deliver(reader_id who, std::uint64_t batch);

  /// Rows that become consumed if this reader acknowledges: those of its share if it is the last
  /// one. `conflict`: it does not hold the batch.
  [[nodiscard]] result<std::vector<row_id>> consumed_by(reader_id who, std::uint64_t batch) const;
  /// @pre `consumed_by` is no error
  void acknowledge(reader_id who, std::uint64_t batch);
  /// Rows that become available if this reader releases: those of the batch if nobody else needs
  /// it. `conflict`: it does not hold the batch.
  [[nodiscard]] result<std::vector<row_id>> freed_by(reader_id who, std::uint64_t batch) const;
  /// @pre `freed_by` is no error
  void release(reader_id who, std::uint64_t batch);

  /// Batches that this reader holds.
  [[nodiscard]] std::vector<std::uint64_t> held(reader_id who) const;
  /// Whether rows may become available again by what readers other than this one do.
  [[nodiscard]] bool may_come_back(reader_id who) const;
  /// Forgets a batch, for every reader, and returns its rows that are not consumed.
  std::vector<row_id> forget(std::uint64_t batch);
  /// Numbers of all batches that are remembered.
  [[nodiscard]] std::vector<std::uint64_t> batches() const;

  /// Aborts if a batch is remembered that should not be.
  void check_invariants() const;

private:
  enum class reading : std::uint8_t { waiting, held, acknowledged };
  struct remembered_share {
    std::size_t rank = 0;
    std::vector<row_id> rows;
    std::vector<reading> readers;

    [[nodiscard]] bool all(reading state) const;
  };
  using remembered_batch = std::vector<remembered_share>;

  explicit claim_sampler(const sampler_options& options) : options_(options) {}
  /// The share of a rank; null if the batch is not remembered or has none for it.
  [[nodiscard]] const remembered_share* find(std::size_t rank, std::uint64_t batch) const;
  /// The share that this reader holds; `conflict` if it holds none.
  [[nodiscard]] result<const remembered_share*> find_held(reader_id who, std::uint64_t batch) const;
  void mark(reader_id who, std::uint64_t batch, reading state);

  sampler_options options_;
  std::map<std::uint64_t, remembered_batch> batches_;
  std::uint64_t next_batch_ = 1;
};

} // namespace weir::dataplane
