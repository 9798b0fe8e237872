/// Cosines and sines of the rotary position embedding, one row per position.
#pragma once

#include "kernels/model.hpp"

#include <cstddef>

namespace weir::kernels {

/// `[context, head_size / 2]` cosines and sines. Angles are rounded to float as Hugging Face's
/// implementation rounds them; cosine and sine are those of that angle, rounded once.
class rope_table {
public:
  rope_table() = default;
  explicit rope_table(const model_config& config);

  [[nodiscard]] const float* cosines(std::size_t position) const noexcept {
    return cosines_.data() + position * half_;
  }
  [[nodiscard]] const float* sines(std::size_t position) const noexcept {
    return sines_.data() + position * half_;
  }

private:
  std::size_t half_ = 0;
  float_buffer cosines_;
  float_buffer sines_;
};

} // namespace weir::kernels
