#include "kernels/rope.hpp"

#include <cmath>

namespace weir::kernels {

rope_table::rope_table(const model_config& config)
    : half_(config.head_size / 2), cosines_(half_ * config.context),
      sines_(half_ * config.context) {
  for (std::size_t i = 0; i < half_; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(config.head_size);
    const auto frequency =
        static_cast<float>(1.0 / std::pow(static_cast<double>(config.rope_theta), exponent));
    for (std::size_t position = 0; position < config.context; ++position) {
      const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
      cosines_.data()[position * half_ + i] = static_cast<float>(std::cos(angle));
      sines_.data()[position * half_ + i] = static_cast<float>(std::sin(angle));
    }
  }
}

} // namespace weir::kernels
