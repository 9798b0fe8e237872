/// The style of this repository, as rules over source text. Each finding says where, and what to
/// do.
#pragma once

#include "tests/tidy/source.hpp"

namespace weir::tidy {

/// Length of file and lines, trailing space, line ends, `#pragma once`, words and names.
[[nodiscard]] std::vector<finding> check_layout(const source_file& file);
/// Layers point one way; CAF stays behind actors/runtime; functional cores touch no machine.
[[nodiscard]] std::vector<finding> check_includes(const source_file& file);
/// Calls that only one file may make, or none.
[[nodiscard]] std::vector<finding> check_calls(const source_file& file);
/// Coroutines take their parameters by value.
[[nodiscard]] std::vector<finding> check_signatures(const source_file& file);
/// Functions and statements with co_await.
[[nodiscard]] std::vector<finding> check_statements(const source_file& file);

/// All rules about one file.
[[nodiscard]] std::vector<finding> check_file(const source_file& file);

/// Each C++ block of a README is the region of a file that is compiled, word by word.
[[nodiscard]] std::vector<finding> check_quotes(const std::vector<source_file>& files);
/// Each case that tests/ACCEPTANCE.md names exists.
[[nodiscard]] std::vector<finding> check_acceptance(const std::vector<source_file>& files);
/// Exactly the files that the README of the runtime lists include CAF.
[[nodiscard]] std::vector<finding> check_caf(const std::vector<source_file>& files);

/// Rules about the tree: one `.resume()`; each source in a meson.build, with its own header first;
/// each folder with a README; and the three above. `files` are all text files.
[[nodiscard]] std::vector<finding> check_tree(const std::vector<source_file>& files);

} // namespace weir::tidy
