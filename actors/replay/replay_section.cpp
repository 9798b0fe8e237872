#include "actors/replay/replay_section.hpp"

#include "dataplane/snapshot_file.hpp"

#include <iterator>
#include <utility>

namespace weir {

result<std::vector<dataplane::finished_section>>
write_replay_section(const section_target& target, const replay_image& index,
                     const dataplane::snapshot& rows) {
  auto files = write_one_section(target, "replay_buffer_metadata.fb", encode(index, target.epoch));
  if (!files) return files;
  // At the recovery level of groups no ledger record names a staged row: its group is generated
  // again, and a row that came back with it would belong to nobody.
  auto data =
      dataplane::write_snapshot(target.storage, target.directory, target.epoch, rows.committed());
  if (!data) return data;
  std::move(data->begin(), data->end(), std::back_inserter(*files));
  return files;
}

} // namespace weir
