/// One kernel source for the GPU and for the host.
///
/// A kernel is a template over its block. It does its work in phases: `block.for_each_thread(f)`
/// calls f(thread) for each thread of the block, and everything written in one phase is visible in
/// the next. On a GPU a phase ends with a barrier; on the host it is a loop over the threads, in an
/// order that a test chooses, so that a phase in which one thread depends on another gives another
/// result in another order.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
/// Compiled for both sides; nothing where the compiler knows only one.
#  define WEIR_DEVICE __host__ __device__
#else
#  define WEIR_DEVICE
#endif

namespace weir::kernels::detail {

#ifdef __CUDACC__

/// The block that the calling thread of the GPU belongs to.
struct cuda_block {
  template <class Function>
  __device__ void for_each_thread(Function function) {
    function(static_cast<std::uint32_t>(threadIdx.x));
    __syncthreads();
  }
};

#endif

/// The orders in which the host runs the threads of a block.
enum class thread_order : std::uint8_t { forward, backward, interleaved };

/// A block whose threads are iterations of a loop.
struct host_block {
  std::uint32_t threads = 0;
  thread_order order = thread_order::forward;

  template <class Function>
  void for_each_thread(Function function) {
    for (std::uint32_t index = 0; index < threads; ++index) {
      switch (order) {
      case thread_order::forward:
        function(index);
        break;
      case thread_order::backward:
        function(threads - 1 - index);
        break;
      case thread_order::interleaved: // Odd threads first, then even ones.
        function(index < threads / 2 ? 2 * index + 1 : 2 * (index - threads / 2));
        break;
      }
    }
  }
};

} // namespace weir::kernels::detail
