/// Reads one line of JSON into a record. Kept apart so that the JSON library is included once.
#pragma once

#include "actors/dataloader/dataset.hpp"

namespace weir::detail {

/// The record in `text`, without its hash. The error's text says what is wrong and what to do, and
/// has no place in it: the caller knows file and line.
[[nodiscard]] result<dataset_record> read_record(std::string_view text,
                                                 const dataset_options& options);

} // namespace weir::detail
