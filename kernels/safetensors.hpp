/// The safetensors format: named tensors in one file.
///
/// Layout: 8 bytes little-endian length of the header; the header, a JSON object that maps each
/// name to {"dtype", "shape", "data_offsets": [begin, end]} with offsets counted from the end of
/// the header, and "__metadata__" to strings; then the data. We pad the header with spaces so that
/// the data begins at a multiple of 512 bytes, as the format allows.
///
/// Reading trusts nothing: lengths are bounded, tensors must lie side by side without a gap from
/// the first to the last byte of the data (which is what the format's own reader demands), sizes
/// must be those of shape and type, names must differ.
#pragma once

#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::kernels {

/// Element types that this reader understands; others are `unsupported`.
enum class tensor_type : std::uint8_t { f32, f16, bf16 };

/// One tensor of a file that was read; `data` points into the bytes that were given.
struct tensor_view {
  std::string name;
  tensor_type type = tensor_type::f32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> data; ///< Not aligned.

  /// Number of elements.
  [[nodiscard]] std::size_t count() const noexcept;
  /// Copies the elements as floats, row-major. @pre `into` has `count()` elements.
  void copy_to(std::span<float> into) const;
};

using tensor_metadata = std::vector<std::pair<std::string, std::string>>;

struct safetensors_content {
  std::vector<tensor_view> tensors; ///< In the order of their data.
  tensor_metadata metadata;
};

/// Longest header that is read or written.
inline constexpr std::size_t safetensors_header_bytes_max = 16 * 1024 * 1024;

/// Reads the header and checks everything but the numbers. Fails with `corrupt`, naming the tensor
/// where one is to blame, or with `unsupported` for another element type.
[[nodiscard]] result<safetensors_content> read_safetensors(std::span<const std::byte> file);

/// A tensor to write: row-major floats.
struct tensor_source {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::span<const float> values;
};

/// Takes the bytes of a file piece by piece, in order; an error ends the writing and is returned.
using byte_sink = std::function<result<void>(std::span<const std::byte>)>;

/// Writes a file: the header as one piece, then each run of tensors that are adjacent in memory as
/// one, without copying it.
/// @pre each tensor has as many values as its shape says; names differ and are UTF-8.
[[nodiscard]] result<void> write_safetensors(std::span<const tensor_source> tensors,
                                             const tensor_metadata& metadata,
                                             const byte_sink& sink);

/// Bytes of the whole file, for those who must reserve them.
[[nodiscard]] std::size_t safetensors_size(std::span<const tensor_source> tensors,
                                           const tensor_metadata& metadata);

} // namespace weir::kernels
