/// Blocks and statements of C++ text, by their brackets: enough to know how long a function is and
/// what stands in one statement with a co_await. No parser: it may be wrong about code that nobody
/// here writes, and then says too much rather than too little.
#pragma once

#include "tests/tidy/source.hpp"

namespace weir::tidy {

/// Functions longer than 70 lines, from opening to closing brace.
[[nodiscard]] std::vector<finding> long_functions(const source_file& file, std::string_view code);

/// Statements with a co_await that also hold braces, a lambda, a conditional operator, a structured
/// binding or a second co_await. g++ 12 destroys such temporaries twice.
[[nodiscard]] std::vector<finding> awaiting_statements(const source_file& file,
                                                       std::string_view code);

} // namespace weir::tidy
