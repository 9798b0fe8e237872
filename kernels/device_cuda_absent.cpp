// Stands in for device_cuda.cu in a build without nvcc: there is no GPU, and it says why.
#include "kernels/device_cuda.hpp"

namespace weir::kernels {

namespace {

constexpr const char* reason = "this build has no CUDA kernels";

} // namespace

cuda_search find_cuda_devices() {
  return {{}, reason};
}

result<std::unique_ptr<device_context>> make_cuda_context(std::uint32_t) {
  return failure(errc::unavailable, reason);
}

result<std::unique_ptr<cuda_rms_norm>> cuda_rms_norm::create(std::uint32_t,
                                                             const rms_norm_capacity&) {
  return failure(errc::unavailable, reason);
}

} // namespace weir::kernels
