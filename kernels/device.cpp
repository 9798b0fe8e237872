#include "kernels/device.hpp"

#include <charconv>

namespace weir::kernels {

namespace {

constexpr std::string_view cuda_prefix = "cuda:";

device_choice use_cpu(std::string why) {
  return {device{}, std::move(why.append(": using the CPU"))};
}

device_choice use_cuda(const cuda_device& found) {
  const device chosen{device_kind::cuda, found.ordinal};
  return {chosen, "using " + to_string(chosen) + " (" + found.name + ", " +
                      std::to_string(found.memory_bytes >> 30) + " GiB)"};
}

} // namespace

std::string to_string(const device& where) {
  return where.kind == device_kind::cpu ? "cpu" : "cuda:" + std::to_string(where.ordinal);
}

result<device_choice> choose_device(std::string_view wanted, const cuda_search& found) {
  if (wanted == "cpu") return device_choice{device{}, "using the CPU, as configured"};
  if (wanted == "auto" || wanted == "cuda")
    return found.devices.empty() ? use_cpu(found.explanation) : use_cuda(found.devices.front());
  std::uint32_t ordinal = 0;
  const char* last = wanted.data() + wanted.size();
  const bool prefixed = wanted.starts_with(cuda_prefix);
  const char* digits = wanted.data() + (prefixed ? cuda_prefix.size() : 0);
  const auto [end, code] = std::from_chars(digits, last, ordinal);
  if (!prefixed || code != std::errc{} || end != last)
    return failure(errc::invalid_argument, "device is \"" + std::string(wanted) +
                                               "\": it must be auto, cpu, cuda or cuda:N");
  if (found.devices.empty()) return use_cpu(found.explanation);
  for (const cuda_device& one : found.devices)
    if (one.ordinal == ordinal) return use_cuda(one);
  return use_cpu("there is no " + std::string(wanted) +
                 ", only cuda:0 to cuda:" + std::to_string(found.devices.size() - 1));
}

result<device_choice> choose_device(std::string_view wanted) {
  return choose_device(wanted, wanted == "cpu" ? cuda_search{} : find_cuda_devices());
}

} // namespace weir::kernels
