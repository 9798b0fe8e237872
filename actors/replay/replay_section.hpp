/// What replay writes into a bundle and reads back: the index and the data plane.
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/checkpoint/write_terms.hpp"
#include "actors/replay/replay_index.hpp"
#include "dataplane/snapshot.hpp"

#include <vector>

namespace weir {

/// Writes `replay_buffer_metadata.fb` and `data_plane/`; what the terms allow is linked. Runs on a
/// pool thread.
[[nodiscard]] result<std::vector<dataplane::finished_section>>
write_replay_section(const section_target& target, const replay_image& index,
                     const dataplane::snapshot& rows, write_terms& terms,
                     const dataplane::write_pace& pace = {});

} // namespace weir
