/// The weights that a decoder computes with: packed matrices of one version, and the few versions
/// that it holds at once.
///
/// A group in flight follows the version that was set last. A pinned group keeps the one that it
/// names, so earlier versions stay on the shelf: as many as the options say, and those that a live
/// group is pinned to.
#pragma once

#include "kernels/decoder.hpp"
#include "kernels/matmul.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir::kernels {

/// One version, with its matrices rearranged for the products. Everything else is read in place.
class packed_weights {
public:
  struct layer_matrices {
    packed_matrix q, k, v, o, gate, up, down;
  };

  /// Allocates for the largest use. @pre `layout` outlives it and is that of `config`.
  packed_weights(const model_config& config, const parameter_layout& layout);

  /// Takes a version over; allocates nothing. @pre the count is the layout's.
  void load(const published_weights& weights);

  [[nodiscard]] bool loaded() const noexcept { return values_ != nullptr; }
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  [[nodiscard]] const float* at(std::size_t offset) const { return values_.get() + offset; }
  [[nodiscard]] const layer_matrices& layer(std::size_t index) const { return layers_[index]; }
  [[nodiscard]] const packed_matrix& head() const noexcept { return head_; }

private:
  const parameter_layout& layout_;
  std::shared_ptr<const float> values_;
  std::uint64_t version_ = 0;
  std::vector<layer_matrices> layers_;
  packed_matrix head_;
};

class weight_shelf {
public:
  /// Room for the newest version and `earlier` others. References stay valid while it lives.
  weight_shelf(const model_config& config, const parameter_layout& layout, std::size_t earlier);
  weight_shelf(const weight_shelf&) = delete;
  weight_shelf& operator=(const weight_shelf&) = delete;

  /// Makes these weights the current ones. The lowest version that is neither current nor among
  /// `pinned` gives its place; only when all are pinned is one more allocated.
  void put(const published_weights& weights, std::span<const std::uint64_t> pinned);

  /// Null before the first `put`.
  [[nodiscard]] const packed_weights* current() const noexcept { return current_; }
  /// Null when the version is not held.
  [[nodiscard]] const packed_weights* find(std::uint64_t version) const;
  /// For messages: "11, 12".
  [[nodiscard]] std::string versions() const;

private:
  [[nodiscard]] packed_weights& place_for(std::uint64_t version,
                                          std::span<const std::uint64_t> pinned);

  const model_config config_;
  const parameter_layout& layout_;
  std::vector<std::unique_ptr<packed_weights>> places_;
  const packed_weights* current_ = nullptr;
};

} // namespace weir::kernels
