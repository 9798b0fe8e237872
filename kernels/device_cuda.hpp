/// The CUDA half of the kernels: what device_cuda.cu implements where nvcc is installed, and
/// device_cuda_absent.cpp refuses where it is not. No CUDA type appears here.
///
/// Every call of the CUDA runtime is checked; an error is a value that names the device and carries
/// the runtime's own text.
#pragma once

#include "kernels/device.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <memory>

namespace weir::kernels {

/// The part of a device stream that knows the device: called on the stream's own thread.
class device_context {
public:
  device_context() = default;
  device_context(const device_context&) = delete;
  device_context& operator=(const device_context&) = delete;
  virtual ~device_context() = default;

  /// Makes the device the calling thread's current one.
  [[nodiscard]] virtual result<void> bind() = 0;
  /// Waits until the device has done everything that was enqueued on this stream.
  [[nodiscard]] virtual result<void> synchronize() = 0;
  /// The `cudaStream_t` to enqueue on; null on the CPU.
  [[nodiscard]] virtual void* native() const noexcept = 0;
};

/// A stream of CUDA device `ordinal`. Fails with `unavailable`.
[[nodiscard]] result<std::unique_ptr<device_context>> make_cuda_context(std::uint32_t ordinal);

/// Largest batch that a `cuda_rms_norm` takes.
struct rms_norm_capacity {
  std::size_t rows = 0;
  std::size_t size = 0; ///< Elements of a row.
};

/// RMSNorm of contiguous rows on a CUDA device, with the bits of `operations::rms_norm`.
///
/// Buffers on the device are allocated at creation. Used by one thread at a time.
class cuda_rms_norm {
public:
  cuda_rms_norm() = default;
  cuda_rms_norm(const cuda_rms_norm&) = delete;
  cuda_rms_norm& operator=(const cuda_rms_norm&) = delete;
  virtual ~cuda_rms_norm() = default;

  /// Fails with `unavailable` without the device, with `exhausted` without memory on it.
  [[nodiscard]] static result<std::unique_ptr<cuda_rms_norm>>
  create(std::uint32_t ordinal, const rms_norm_capacity& capacity);

  /// y[rows, size] = rms_norm(x) x weight, all in host memory; returns when y is written. y may be
  /// x. `fused` as the level of the CPU's operations: avx2 and avx512 fuse, generic does not.
  [[nodiscard]] virtual result<void> apply(const float* x, const float* weight, float* y,
                                           std::size_t rows, std::size_t size, float epsilon,
                                           bool fused) = 0;
};

} // namespace weir::kernels
