// The CUDA half of the kernels (device_cuda.hpp). nvcc compiles this file without contraction of
// multiply-adds, so that rounding is what the source says.
#include "kernels/detail/rms_norm.cuh"
#include "kernels/device_cuda.hpp"

#include <cuda_runtime.h>

#include <string>

namespace weir::kernels {

namespace {

/// The value of a call that went well, or the error that names the device.
result<void> checked(cudaError_t code, std::uint32_t ordinal, const char* what) {
  if (code == cudaSuccess) return {};
  // Reading the error clears it, unless the context itself is lost.
  std::ignore = cudaGetLastError();
  const errc kind = code == cudaErrorMemoryAllocation ? errc::exhausted : errc::unavailable;
  return failure(kind,
                 "cuda:" + std::to_string(ordinal) + ": " + what + ": " + cudaGetErrorString(code));
}

class cuda_context final : public device_context {
public:
  explicit cuda_context(std::uint32_t ordinal) : ordinal_(ordinal) {}
  ~cuda_context() override {
    if (stream_ != nullptr) std::ignore = cudaStreamDestroy(stream_);
  }

  result<void> begin() {
    if (auto bound = bind(); !bound) return bound;
    return checked(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), ordinal_,
                   "making a stream");
  }
  result<void> bind() override {
    return checked(cudaSetDevice(static_cast<int>(ordinal_)), ordinal_, "choosing the device");
  }
  result<void> synchronize() override {
    return checked(cudaStreamSynchronize(stream_), ordinal_, "waiting for the stream");
  }
  void* native() const noexcept override { return stream_; }

private:
  std::uint32_t ordinal_;
  cudaStream_t stream_ = nullptr;
};

__global__ void __launch_bounds__(detail::rms_norm_block_threads)
    rms_norm_kernel(detail::rms_norm_operands operands) {
  __shared__ float partial[detail::rms_norm_block_threads];
  detail::cuda_block block;
  detail::rms_norm_block(block, blockIdx.x, operands, partial);
}

/// Floats on a device.
class device_floats {
public:
  device_floats() = default;
  device_floats(const device_floats&) = delete;
  device_floats& operator=(const device_floats&) = delete;
  ~device_floats() {
    if (data_ != nullptr) std::ignore = cudaFree(data_);
  }
  cudaError_t allocate(std::size_t count) { return cudaMalloc(&data_, count * sizeof(float)); }
  [[nodiscard]] float* data() const { return data_; }

private:
  float* data_ = nullptr;
};

class rms_norm_on_cuda final : public cuda_rms_norm {
public:
  rms_norm_on_cuda(std::uint32_t ordinal, const rms_norm_capacity& capacity)
      : ordinal_(ordinal), capacity_(capacity), context_(ordinal) {}

  result<void> begin() {
    if (auto begun = context_.begin(); !begun) return begun;
    if (auto made =
            checked(rows_.allocate(capacity_.rows * capacity_.size), ordinal_, "allocating rows");
        !made)
      return made;
    return checked(weight_.allocate(capacity_.size), ordinal_, "allocating a weight");
  }

  result<void> apply(const float* x, const float* weight, float* y, std::size_t rows,
                     std::size_t size, float epsilon, bool fused) override {
    ensure(rows <= capacity_.rows, "a batch has no more rows than were allocated");
    ensure(size <= capacity_.size, "a row is no longer than was allocated");
    if (rows == 0) return {};
    if (auto bound = context_.bind(); !bound) return bound;
    const auto stream = static_cast<cudaStream_t>(context_.native());
    const std::size_t bytes = rows * size * sizeof(float);
    const auto copy = [&](void* to, const void* from, std::size_t count, cudaMemcpyKind kind) {
      return checked(cudaMemcpyAsync(to, from, count, kind, stream), ordinal_, "copying rows");
    };
    if (auto copied = copy(rows_.data(), x, bytes, cudaMemcpyHostToDevice); !copied) return copied;
    if (auto copied = copy(weight_.data(), weight, size * sizeof(float), cudaMemcpyHostToDevice);
        !copied)
      return copied;
    const detail::rms_norm_operands operands{rows_.data(), weight_.data(), rows_.data(), rows,
                                             size,         epsilon,        fused};
    const auto blocks = static_cast<unsigned>(detail::rms_norm_blocks(rows));
    rms_norm_kernel<<<blocks, detail::rms_norm_block_threads, 0, stream>>>(operands);
    if (auto launched = checked(cudaGetLastError(), ordinal_, "launching rms_norm"); !launched)
      return launched;
    if (auto copied = copy(y, rows_.data(), bytes, cudaMemcpyDeviceToHost); !copied) return copied;
    return context_.synchronize();
  }

private:
  std::uint32_t ordinal_;
  rms_norm_capacity capacity_;
  cuda_context context_;
  device_floats rows_;
  device_floats weight_;
};

} // namespace

cuda_search find_cuda_devices() {
  cuda_search found;
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    std::ignore = cudaGetLastError();
    found.explanation = std::string("no CUDA device (") + cudaGetErrorString(code) + ")";
    return found;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) {
      std::ignore = cudaGetLastError();
      continue;
    }
    found.devices.push_back({static_cast<std::uint32_t>(ordinal), properties.name,
                             static_cast<std::uint64_t>(properties.totalGlobalMem)});
  }
  if (found.devices.empty()) found.explanation = "no CUDA device answers";
  return found;
}

result<std::unique_ptr<device_context>> make_cuda_context(std::uint32_t ordinal) {
  auto context = std::make_unique<cuda_context>(ordinal);
  if (auto begun = context->begin(); !begun) return failure(begun.error());
  return context;
}

result<std::unique_ptr<cuda_rms_norm>> cuda_rms_norm::create(std::uint32_t ordinal,
                                                             const rms_norm_capacity& capacity) {
  ensure(capacity.rows > 0, "a batch of rows has room");
  ensure(capacity.size > 0, "a row has elements");
  auto made = std::make_unique<rms_norm_on_cuda>(ordinal, capacity);
  if (auto begun = made->begin(); !begun) return failure(begun.error());
  return made;
}

} // namespace weir::kernels
