#include "kernels/detail/rms_norm.cuh"
#include "kernels/device.hpp"
#include "kernels/device_cuda.hpp"
#include "kernels/model.hpp"
#include "kernels/ops.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>

namespace {

using namespace weir;
using namespace weir::kernels;
namespace simt = weir::kernels::detail;

const cuda_search two_devices{{{0, "first", 80ULL << 30}, {1, "second", 24ULL << 30}}, ""};
const cuda_search no_device{{}, "no CUDA device (no driver)"};

struct rows_case {
  std::size_t rows = 0;
  std::size_t size = 0;
  float_buffer x, weight;
};

rows_case make_rows(std::size_t rows, std::size_t size) {
  rows_case made{rows, size, float_buffer(rows * size), float_buffer(size)};
  std::uint32_t state = static_cast<std::uint32_t>(rows * 131 + size);
  const auto next = [&] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8) * 0x1.0p-24F - 0.5F;
  };
  for (float& value : made.x.values())
    value = next() * 8.0F;
  for (float& value : made.weight.values())
    value = 1.0F + next();
  return made;
}

float_buffer expected_rows(const rows_case& input, isa_level level) {
  float_buffer y(input.rows * input.size);
  for (std::size_t row = 0; row < input.rows; ++row)
    operations_of(level).rms_norm(input.x.data() + row * input.size, input.weight.data(),
                                  y.data() + row * input.size, input.size, 1e-5F);
  return y;
}

bool same_bits(const float_buffer& left, const float_buffer& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

constexpr std::array<std::pair<std::size_t, std::size_t>, 6> shapes{
    {{1, 1}, {3, 15}, {8, 16}, {9, 33}, {17, 128}, {40, 200}}};

TEST_SUITE("kernels/device") {
  TEST_CASE("auto takes the first GPU, and the CPU where there is none") {
    const auto gpu = choose_device("auto", two_devices).value();
    CHECK(to_string(gpu.chosen) == "cuda:0");
    CHECK(gpu.explanation == "using cuda:0 (first, 80 GiB)");
    const auto cpu = choose_device("auto", no_device).value();
    CHECK(to_string(cpu.chosen) == "cpu");
    CHECK(cpu.explanation == "no CUDA device (no driver): using the CPU");
  }

  TEST_CASE("a device is chosen by name") {
    CHECK(choose_device("cpu", two_devices).value().chosen == device{});
    CHECK(choose_device("cuda", two_devices).value().chosen == device{device_kind::cuda, 0});
    CHECK(choose_device("cuda:1", two_devices).value().chosen == device{device_kind::cuda, 1});
  }

  TEST_CASE("a device that does not exist becomes the CPU, and the text says why") {
    const auto absent = choose_device("cuda:2", two_devices).value();
    CHECK(absent.chosen == device{});
    CHECK(absent.explanation == "there is no cuda:2, only cuda:0 to cuda:1: using the CPU");
    CHECK(choose_device("cuda:0", no_device).value().explanation ==
          "no CUDA device (no driver): using the CPU");
  }

  TEST_CASE("any other text is refused") {
    for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CPU", "1"}) {
      const auto choice = choose_device(text, two_devices);
      REQUIRE_FALSE(choice.has_value());
      CHECK(choice.error().code == errc::invalid_argument);
    }
  }

  TEST_CASE("looking for devices on this machine gives devices or a reason") {
    const cuda_search found = find_cuda_devices();
    CHECK(found.devices.empty() == !found.explanation.empty());
    CHECK(choose_device("auto").has_value());
  }
}

TEST_SUITE("kernels/cuda/rms_norm") {
  // The kernel's own source on the host. Each order of threads must give the same bits: a phase in
  // which one thread reads what another writes would not.
  TEST_CASE("the kernel on the host has the bits of the CPU's operation, in any thread order") {
    for (const auto& [rows, size] : shapes)
      for (const isa_level level : usable_isa_levels())
        for (const auto order : {simt::thread_order::forward, simt::thread_order::backward,
                                 simt::thread_order::interleaved}) {
          const rows_case input = make_rows(rows, size);
          float_buffer y(rows * size);
          const simt::rms_norm_operands operands{
              input.x.data(), input.weight.data(),        y.data(), rows, size,
              1e-5F,          level != isa_level::generic};
          std::array<float, simt::rms_norm_block_threads> partial{};
          for (std::size_t block = 0; block < simt::rms_norm_blocks(rows); ++block) {
            partial.fill(1e30F); // Shared memory begins with whatever was there.
            simt::host_block threads{simt::rms_norm_block_threads, order};
            simt::rms_norm_block(threads, block, operands, partial.data());
          }
          CAPTURE(size);
          CHECK(same_bits(y, expected_rows(input, level)));
        }
  }

  TEST_CASE("the kernel on a GPU has the bits of the CPU's operation") {
    const cuda_search found = find_cuda_devices();
    if (found.devices.empty()) {
      MESSAGE("skipped: " << found.explanation);
      return;
    }
    for (const auto& [rows, size] : shapes) {
      const rows_case input = make_rows(rows, size);
      const auto norm = cuda_rms_norm::create(found.devices.front().ordinal, {rows, size}).value();
      for (const isa_level level : usable_isa_levels()) {
        float_buffer y(rows * size);
        REQUIRE(norm->apply(input.x.data(), input.weight.data(), y.data(), rows, size, 1e-5F,
                            level != isa_level::generic)
                    .has_value());
        CHECK(same_bits(y, expected_rows(input, level)));
      }
    }
  }

  TEST_CASE("without a device its kernels say so") {
    if (!find_cuda_devices().devices.empty()) return;
    CHECK(cuda_rms_norm::create(0, {1, 1}).error().code == errc::unavailable);
    CHECK(make_cuda_context(0).error().code == errc::unavailable);
  }
}

} // namespace
