/// Where kernels run: the CPU, or a CUDA device found at run time.
///
/// One binary serves both. Any error of the CUDA runtime while looking (no driver, no device, a
/// driver that is too old) means that there is no GPU: the CPU is used, and the text says why.
#pragma once

#include "messages/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::kernels {

enum class device_kind : std::uint8_t { cpu, cuda };

/// A place to compute. `ordinal` counts CUDA devices; it is 0 for the CPU.
struct device {
  device_kind kind = device_kind::cpu;
  std::uint32_t ordinal = 0;

  friend bool operator==(const device&, const device&) = default;
};

/// "cpu" or "cuda:1", as it stands in the configuration.
[[nodiscard]] std::string to_string(const device& where);

/// A CUDA device that this process can use.
struct cuda_device {
  std::uint32_t ordinal = 0;
  std::string name;
  std::uint64_t memory_bytes = 0;
};

/// What looking for CUDA devices gave. Asks the runtime anew each time.
struct cuda_search {
  std::vector<cuda_device> devices;
  std::string explanation; ///< Why there is none; empty when there is one.
};
[[nodiscard]] cuda_search find_cuda_devices();

/// The device that is used, and a line for the log that says so, and why if another was asked for.
struct device_choice {
  device chosen;
  std::string explanation;
};

/// Chooses by `policy.generation.device`: "auto" (a GPU where there is one), "cpu", "cuda" or
/// "cuda:N". A device that does not exist becomes the CPU, and the explanation says why.
/// Fails with `invalid_argument` on any other text.
[[nodiscard]] result<device_choice> choose_device(std::string_view wanted);

/// The same among devices that were found before: a pure function.
[[nodiscard]] result<device_choice> choose_device(std::string_view wanted,
                                                  const cuda_search& found);

} // namespace weir::kernels
