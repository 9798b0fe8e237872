#include "dataplane/snapshot.hpp"

namespace weir::dataplane {

std::vector<partition_inventory> snapshot::inventory() const {
  std::vector<partition_inventory> listed;
  contents_.partitions.for_each([&listed](std::uint64_t, const partition_state& partition) {
    partition_inventory one{.name = partition.schema->name, .rows = {}};
    one.rows.reserve(partition.rows.size());
    partition.rows.for_each([&](std::uint64_t id, const row_entry& row) {
      one.rows.push_back(summarize(*partition.schema, id, row));
    });
    listed.push_back(std::move(one));
  });
  return listed;
}

snapshot snapshot::committed() const {
  contents kept = contents_;
  contents_.partitions.for_each([&kept](std::uint64_t number, const partition_state& partition) {
    partition.rows.for_each([&kept, number](std::uint64_t id, const row_entry& row) {
      if (row.state == row_state::committed) return;
      kept.release(*row.body);
      kept.partitions.mutate(number)->rows.erase(id);
      --kept.staged_rows;
    });
  });
  return snapshot(std::move(kept));
}

} // namespace weir::dataplane
