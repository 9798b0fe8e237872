#include "actors/replay/replay_section.hpp"

#include "dataplane/snapshot_file.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weir {

result<std::vector<dataplane::finished_section>>
write_replay_section(const section_target& target, const replay_image& index,
                     const dataplane::snapshot& rows, write_terms& terms,
                     const dataplane::write_pace& pace) {
  auto files = write_one_section(target, "replay_buffer_metadata.fb", encode(index, target.epoch));
  if (!files) return files;
  // At the recovery level of groups no ledger record names a staged row: its group is generated
  // again, and a row that came back with it would belong to nobody.
  dataplane::increment_options options;
  options.pace = pace ? pace : target.pace;
  options.full_every = terms.rules().full_every;
  options.base = terms.base();
  auto written = dataplane::write_increment(target.storage, target.directory, target.epoch,
                                            rows.committed(), options);
  if (!written) {
    terms.forget();
    return failure(std::move(written.error()));
  }
  std::ranges::move(written->sections, std::back_inserter(*files));
  terms.wrote(std::move(written->files));
  return files;
}

} // namespace weir
