/// The in-memory data plane: partitions of rows of fields, payload in append-only segments.
///
/// Every verb is all or nothing: an error leaves the store exactly as it was, and names partition,
/// row and field. A field keeps its dtype for its lifetime; rows may be jagged. Row ids are handed
/// out in order and never used again within a run, snapshots and restores included.
///
///   stage -> staged (invisible) -> commit -> committed -> clear
///                               -> drop_staged
///   committed, per named consumer: available -> claim -> claimed -> acknowledge -> consumed
///                                                               -> release -> available
///
/// Layout: the cells that one call writes to one field stand one behind the other, in the order of
/// the rows, and each such run starts at 64 bytes. So a `get` of rows that were staged together
/// copies nothing. A segment belongs to no partition.
///
/// Capacity: bytes of live cells. A stage that would pass the high-water mark is refused with
/// `exhausted` (wait and try again) unless it has priority; a patch may use what lies between the
/// mark and the capacity, so that rows already here can be finished.
///
/// With a spill area, what would pass a mark first sends the segments to disk that were not touched
/// for longest, whole, and only their memory counts. They are read as before. A spill that fails
/// leaves its segment in memory, is counted and told, and is not tried again at once.
///
/// Threads: used by one thread at a time. Snapshots and batches are independent of the store.
#pragma once

#include "dataplane/arena.hpp"
#include "dataplane/batch.hpp"
#include "dataplane/compaction.hpp"
#include "dataplane/contents.hpp"
#include "dataplane/row.hpp"
#include "dataplane/snapshot.hpp"
#include "dataplane/spill_area.hpp"
#include "dataplane/tag_index.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weir::dataplane {

struct store_options {
  /// Memory of one segment; a larger row gets a segment of its own.
  std::uint64_t segment_bytes = std::uint64_t{64} * 1024 * 1024;
  std::uint64_t capacity_bytes = std::uint64_t{8} * 1024 * 1024 * 1024;
  /// Where ordinary stages are refused; at most the capacity.
  std::uint64_t high_water_bytes = std::uint64_t{7} * 1024 * 1024 * 1024;
  /// Memory of dead segments that is kept for new ones, at most. The system takes it when it is
  /// short of memory.
  std::uint64_t idle_bytes = std::uint64_t{512} * 1024 * 1024;
  /// Where cold segments go when memory is short; null: nowhere.
  std::shared_ptr<spill_area> spill = {};
  /// Told of each spill that failed, within the call that needed it; may be empty.
  std::function<void(const error& why)> spill_failed = {};
};

/// For metrics and leak checks.
struct store_stat {
  std::uint64_t sequence = 0;
  std::uint64_t partitions = 0;
  std::uint64_t staged_rows = 0;
  std::uint64_t committed_rows = 0;
  /// Claims that are neither acknowledged nor released.
  std::uint64_t claims = 0;
  /// Payload of staged and committed rows.
  std::uint64_t live_bytes = 0;
  /// Segments that this store (not a snapshot or batch) holds, and the memory reserved by them.
  std::uint64_t segments = 0;
  std::uint64_t segment_bytes = 0;
  /// Those of them that are on disk, and their bytes there; spills that failed.
  std::uint64_t spilled_segments = 0;
  std::uint64_t spilled_bytes = 0;
  std::uint64_t spills_failed = 0;
  /// Segments that `compact` would empty.
  std::uint64_t mostly_dead_segments = 0;
  /// Memory of dead segments that is kept for new ones.
  std::uint64_t idle_bytes = 0;
  /// Stages that were refused for lack of room, and that priority let pass the mark.
  std::uint64_t stages_refused = 0;
  std::uint64_t stages_above_mark = 0;
  /// Moved out of mostly dead segments, since the start.
  std::uint64_t moved_bytes = 0;

  friend bool operator==(const store_stat&, const store_stat&) = default;
};

class store {
public:
  explicit store(store_options options = {});
  store(const store&) = delete;
  store& operator=(const store&) = delete;

  // ---- Writing ---------------------------------------------------------------------------------

  /// Writes rows that nobody sees until `commit`; the partition is made if it is missing. Returns
  /// their ids, in order. `invalid_argument`: a dtype conflict, a shape that does not fit its
  /// bytes, a field twice in a row, a bound of row.hpp. `already_exists`: the key of another row.
  /// `exhausted`: no room.
  [[nodiscard]] result<std::vector<row_id>> stage(std::string_view partition,
                                                  std::span<const row_input> rows,
                                                  admission kind = admission::ordinary);
  /// Makes staged rows visible. `not_found`: no such row. `conflict`: a row is committed already.
  [[nodiscard]] result<void> commit(std::string_view partition, std::span<const row_id> rows);
  /// `stage` and `commit` in one.
  [[nodiscard]] result<std::vector<row_id>> put(std::string_view partition,
                                                std::span<const row_input> rows,
                                                admission kind = admission::ordinary);
  /// Adds fields to rows, staged or committed, and sets tags. `already_exists`: a row has the
  /// field; a value is never overwritten. Otherwise errors as for `stage`.
  [[nodiscard]] result<void> patch(std::string_view partition, std::span<const row_patch> patches);
  /// Removes staged rows. `conflict`: a row is committed.
  [[nodiscard]] result<void> drop_staged(std::string_view partition, std::span<const row_id> rows);
  /// Removes committed rows, whatever their consumers did. `conflict`: a row is only staged.
  [[nodiscard]] result<void> clear(std::string_view partition, std::span<const row_id> rows);

  // ---- Reading ---------------------------------------------------------------------------------

  /// Reads fields of committed rows; a row may be named twice. The buffers of `recycled` (an
  /// earlier result) are used again where they fit. `not_found` names the first row that is not
  /// there or not committed, or that was not given the field.
  [[nodiscard]] result<batch> get(std::string_view partition, std::span<const row_id> rows,
                                  std::span<const std::string> fields, batch recycled = {}) const;
  /// Committed rows that meet all conditions, in the order of their ids. Names that nobody has used
  /// yet match nothing. `not_found`: no such partition. Costs the rows that the most selective tag
  /// leaves; without a tag all rows.
  [[nodiscard]] result<std::vector<row_id>> query(std::string_view partition,
                                                  const row_query& conditions) const;
  /// The row with this key, staged or committed.
  [[nodiscard]] std::optional<row_id> find_key(std::string_view partition,
                                               std::string_view key) const;
  /// The values of one tag, row by row; nothing where a row has no such tag. `not_found` names the
  /// first row that is not there. Costs the rows.
  [[nodiscard]] result<std::vector<std::optional<tag_value>>>
  tag_values(std::string_view partition, std::span<const row_id> rows, std::string_view name) const;
  /// A row without its payload, staged or committed.
  [[nodiscard]] result<row_summary> describe(std::string_view partition, row_id row) const;

  // ---- Consumers -------------------------------------------------------------------------------

  /// Reserves committed rows for a named consumer. `conflict`: it claimed or consumed one before.
  [[nodiscard]] result<void> claim(std::string_view partition, std::string_view consumer,
                                   std::span<const row_id> rows);
  /// Claimed rows become consumed, for good. `conflict`: a row is not claimed by it.
  [[nodiscard]] result<void> acknowledge(std::string_view partition, std::string_view consumer,
                                         std::span<const row_id> rows);
  /// Claimed rows become available again. `conflict`: a row is not claimed by it.
  [[nodiscard]] result<void> release(std::string_view partition, std::string_view consumer,
                                     std::span<const row_id> rows);
  /// Releases whatever the consumer still claims, and returns how many rows: it died, or this is a
  /// restore. `not_found`: no such partition.
  [[nodiscard]] result<std::uint64_t> release_all(std::string_view partition,
                                                  std::string_view consumer);

  // ---- The cut ---------------------------------------------------------------------------------

  /// Captures everything, in O(1). Seals the open segment: what a snapshot pins is final, so that
  /// each segment is written once.
  [[nodiscard]] snapshot capture();
  /// Replaces everything by what a snapshot holds (read_snapshot has verified it). Ids go on where
  /// the larger of the two histories ends, so that none is ever used again.
  void restore(const snapshot& state);

  // ---- Memory ----------------------------------------------------------------------------------

  /// One step of moving what is left in mostly dead segments into the open one, so that their
  /// memory goes back. The owner calls it in the background, again while it is not finished, at the
  /// rate that it wants; each step moves at most `step_bytes`, or one row, and looks at a bounded
  /// number of rows. Nothing that a caller sees changes, the sequence neither; what snapshots and
  /// batches pin stays where it is. `exhausted`: no memory; the step changed nothing.
  [[nodiscard]] result<compaction_step> compact(std::uint64_t step_bytes);

  [[nodiscard]] store_stat stat() const;
  /// Aborts if an index disagrees with the contents. O(rows).
  void check_invariants() const;

private:
  using row_list = std::span<const row_id>;

  /// The partition's number; `not_found` names the ones there are.
  [[nodiscard]] result<std::uint64_t> number_of(std::string_view partition) const;
  [[nodiscard]] const partition_state& partition_at(std::uint64_t number) const;
  [[nodiscard]] partition_state& change_partition(std::uint64_t number);
  /// Checks that the rows are there, none twice, and in `state` if one is given.
  [[nodiscard]] result<std::uint64_t> check_rows(std::string_view partition, row_list rows,
                                                 std::optional<row_state> state) const;

  /// Checks capacity for `bytes` more, and counts.
  [[nodiscard]] result<void> check_room(std::string_view partition, std::uint64_t bytes,
                                        std::uint64_t mark, admission kind);
  /// Live bytes of segments that are not on disk. O(segments).
  [[nodiscard]] std::uint64_t live_bytes_in_memory() const;
  /// Spills until at most this many live bytes are in memory, and tells whether they are.
  [[nodiscard]] bool spill_down_to(std::uint64_t live_bytes);
  std::uint64_t adopt_partition(std::string_view name);
  std::vector<row_id> adopt_rows(std::uint64_t number, std::vector<placing_row>& rows);
  void adopt_patches(std::uint64_t number, std::span<const row_patch> patches,
                     std::vector<placing_row>& rows);
  void remove_rows(std::uint64_t number, row_list rows);

  /// Checks and moves the mark of a consumer on every row: `from` and `to` are empty for available.
  [[nodiscard]] result<void> move_marks(std::string_view partition, std::string_view consumer,
                                        row_list rows, std::optional<consumer_state> from,
                                        std::optional<consumer_state> to);

  /// Moves the cells of some rows that lie in the sweep's segments.
  [[nodiscard]] result<std::uint64_t> move_rows(std::uint64_t partition, row_list rows);
  /// Rows of one partition, from the sweep's position on, with cells to be moved.
  [[nodiscard]] std::vector<row_id> next_rows(std::uint64_t step_bytes);

  store_options options_;
  contents contents_;
  arena arena_;
  std::map<std::string, std::uint64_t, std::less<>> partition_numbers_;
  /// What is derived from the rows of one partition, to find them by.
  struct row_finder {
    std::unordered_map<std::string, std::uint64_t> keys; ///< Staged rows too.
    tag_index tags;
  };
  /// By partition number.
  std::vector<row_finder> finders_;
  std::optional<compaction_sweep> sweep_;
  std::uint64_t stages_refused_ = 0;
  std::uint64_t stages_above_mark_ = 0;
  /// How many calls that are short of room do without a spill after one failed: each failure
  /// doubles it.
  struct spill_pause {
    std::uint64_t left = 0;
    std::uint64_t next = 1;
  };
  static constexpr std::uint64_t spill_pause_max = 1024;
  spill_pause spill_pause_;
  std::uint64_t spills_failed_ = 0;
  std::uint64_t moved_bytes_ = 0;
};

} // namespace weir::dataplane
