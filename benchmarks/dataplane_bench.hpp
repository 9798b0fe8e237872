/// What the files of the data plane's harness share.
#pragma once

#include "benchmarks/report.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weir::benchmarks {

inline constexpr std::size_t mebi = std::size_t{1} << 20;

/// A figure held against an absolute target: at most the target.
[[nodiscard]] inline row at_most(std::string text, std::string unit, double target,
                                 const measurement& ours) {
  return compare({std::move(text), std::move(unit), "the target", 1.0, better::lower}, ours,
                 [target] { return target; });
}

/// Bytes that no compressor makes smaller.
[[nodiscard]] inline std::vector<std::byte> noise(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& one : made)
    one = static_cast<std::byte>(random());
  return made;
}

/// Token ids as a tokenizer of 128,000 hands them out: few of them often, most of them seldom.
[[nodiscard]] inline std::vector<std::int32_t> tokens(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> made(count);
  for (std::int32_t& one : made) {
    const double drawn = static_cast<double>(random() >> 11) * 0x1p-53;
    one = static_cast<std::int32_t>(128'000.0 * drawn * drawn * drawn * drawn);
  }
  return made;
}

/// Rows in memory: the cut, put, get, queries, memory that goes back.
[[nodiscard]] std::vector<row> store_rows();
/// What writing 4 GiB adds to the resident set.
void memory_rows(const std::string& directory, std::vector<row>& rows);
/// What the next bundle writes, and what a thousand of them leave in memory.
void increment_rows(const std::string& directory, std::vector<row>& rows);
/// Rows on the disk below `directory`: snapshots written and read, and the two above.
[[nodiscard]] std::vector<row> snapshot_rows(const std::string& directory);
/// Rows on the disk through io_uring, held against posix.
[[nodiscard]] std::vector<row> uring_rows(const std::string& directory);

} // namespace weir::benchmarks
