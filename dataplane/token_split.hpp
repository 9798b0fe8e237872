/// Splits work of different weights evenly among equals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::dataplane {

/// Positions of `weights` in `parts` lists of equally many, such that the sums are nearly equal:
/// the heaviest part exceeds the lightest by no more than the heaviest weight exceeds the lightest.
/// Equal input gives equal output; each list is ascending. With two weights to a part the heaviest
/// part is as light as it can be.
///
/// Balanced largest differencing (Karmarkar and Karp): the sorted weights are cut into runs, one
/// weight to a part each; then, again and again, the two splits with the largest spreads are
/// joined, the heaviest part of one to the lightest of the other. The spread of a joint is at most
/// the larger one: it is a difference of two differences, each between 0 and its split's spread.
/// So the end has no more than the largest spread within one run.
/// @pre there are `parts` > 0, and as many weights as a multiple of it
[[nodiscard]] std::vector<std::vector<std::size_t>>
split_evenly(std::span<const std::uint64_t> weights, std::size_t parts);

} // namespace weir::dataplane
