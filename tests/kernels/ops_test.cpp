#include "kernels/model.hpp"
#include "kernels/ops.hpp"
#include "kernels/rope.hpp"
#include "tests/kernels/random_floats.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace weir::kernels;

namespace {

/// Distance in units of the last place of the exact result.
double ulps(float got, double exact) {
  const auto rounded = static_cast<float>(exact);
  const float next = std::nextafter(rounded, std::numeric_limits<float>::infinity());
  return std::abs(static_cast<double>(got) - exact) / static_cast<double>(next - rounded);
}

struct attention_case {
  std::size_t heads, kv_heads, head_size, tokens;
};

/// Attention in double, straight from the definition.
std::vector<double> exact_attention(const attention_case& c, const std::vector<float>& query,
                                    const std::vector<float>& keys,
                                    const std::vector<float>& values) {
  std::vector<double> output(c.heads * c.head_size, 0.0);
  const std::size_t kv_width = c.kv_heads * c.head_size;
  for (std::size_t head = 0; head < c.heads; ++head) {
    const std::size_t kv = head / (c.heads / c.kv_heads) * c.head_size;
    std::vector<double> weights(c.tokens);
    double total = 0.0;
    for (std::size_t t = 0; t < c.tokens; ++t) {
      double score = 0.0;
      for (std::size_t f = 0; f < c.head_size; ++f)
        score += double{query[head * c.head_size + f]} * double{keys[t * kv_width + kv + f]};
      weights[t] = std::exp(score / std::sqrt(static_cast<double>(c.head_size)));
      total += weights[t];
    }
    for (std::size_t t = 0; t < c.tokens; ++t)
      for (std::size_t f = 0; f < c.head_size; ++f)
        output[head * c.head_size + f] +=
            weights[t] / total * double{values[t * kv_width + kv + f]};
  }
  return output;
}

/// The same through the kernel, with the cache cut into runs of at most `run_tokens` tokens.
std::vector<float> run_attention(const operations& ops, const attention_case& c,
                                 const std::vector<float>& query, const std::vector<float>& keys,
                                 const std::vector<float>& values, std::size_t run_tokens) {
  const std::size_t kv_width = c.kv_heads * c.head_size;
  const std::size_t stride = (run_tokens + 15) / 16 * 16;
  const std::size_t run_count = (c.tokens + run_tokens - 1) / run_tokens;
  std::vector<float> transposed(run_count * kv_width * stride + 16, 7.0F);
  std::vector<key_value_run> runs(run_count);
  for (std::size_t run = 0; run < run_count; ++run) {
    const std::size_t first = run * run_tokens;
    runs[run].keys = transposed.data() + run * kv_width * stride;
    runs[run].values = values.data() + first * kv_width;
    runs[run].tokens = std::min(run_tokens, c.tokens - first);
    for (std::size_t t = 0; t < runs[run].tokens; ++t)
      for (std::size_t f = 0; f < kv_width; ++f)
        transposed[run * kv_width * stride + f * stride + t] = keys[(first + t) * kv_width + f];
  }
  attention_shape shape;
  shape.heads = c.heads;
  shape.kv_heads = c.kv_heads;
  shape.head_size = c.head_size;
  shape.key_stride = stride;
  shape.key_head_stride = c.head_size * stride;
  shape.value_stride = kv_width;
  shape.value_head_stride = c.head_size;
  std::vector<float> output(c.heads * c.head_size);
  std::vector<float> scratch(c.tokens + 32);
  ops.attention_row(shape, runs.data(), run_count, query.data(), output.data(), scratch.data());
  return output;
}

} // namespace

TEST_SUITE("kernels/ops") {
  TEST_CASE("exp is within two units in the last place, zero far below, at every level") {
    std::vector<float> x;
    for (float value = -87.3F; value < 88.3F; value += 0.00371F)
      x.push_back(value);
    std::vector<float> y(x.size());
    for (const isa_level level : usable_isa_levels()) {
      CAPTURE(to_string(level));
      const operations& ops = operations_of(level);
      ops.exponential(x.data(), y.data(), x.size());
      double worst = 0.0;
      for (std::size_t i = 0; i < x.size(); ++i)
        worst = std::max(worst, ulps(y[i], std::exp(double{x[i]})));
      CHECK(worst <= 2.0);
      const float edges[] = {0.0F, -100.0F, -std::numeric_limits<float>::infinity()};
      float powers[3];
      ops.exponential(edges, powers, 3);
      CHECK(powers[0] == 1.0F);
      CHECK(powers[1] == 0.0F);
      CHECK(powers[2] == 0.0F);
    }
  }

  TEST_CASE("silu is within four units in the last place") {
    std::vector<float> gate;
    for (float value = -80.0F; value < 80.0F; value += 0.0137F)
      gate.push_back(value);
    const std::vector<float> ones(gate.size(), 1.0F);
    std::vector<float> y(gate.size());
    for (const isa_level level : usable_isa_levels()) {
      operations_of(level).swiglu(gate.data(), ones.data(), y.data(), gate.size());
      double worst = 0.0;
      for (std::size_t i = 0; i < gate.size(); ++i) {
        const double x = gate[i];
        if (std::abs(x) > 1e-3) worst = std::max(worst, ulps(y[i], x / (1.0 + std::exp(-x))));
      }
      CHECK(worst <= 4.0);
    }
  }

  TEST_CASE("RMSNorm matches the definition for sizes with and without a tail") {
    for (const isa_level level : usable_isa_levels())
      for (const std::size_t size : {1U, 7U, 16U, 31U, 128U, 131U}) {
        CAPTURE(size);
        const std::vector<float> x = random_floats(size, 1);
        const std::vector<float> weight = random_floats(size, 2);
        std::vector<float> y(size);
        const float scale =
            operations_of(level).rms_norm(x.data(), weight.data(), y.data(), size, 1e-5F);
        double squares = 0.0;
        for (const float value : x)
          squares += double{value} * double{value};
        const double exact = 1.0 / std::sqrt(squares / static_cast<double>(size) + 1e-5);
        CHECK(scale == doctest::Approx(exact).epsilon(1e-6));
        for (std::size_t i = 0; i < size; ++i)
          CHECK(y[i] == doctest::Approx(double{x[i]} * exact * double{weight[i]}).epsilon(1e-6));
      }
  }

  TEST_CASE("rope turns each pair by position times its frequency") {
    model_config config;
    config.head_size = 8;
    config.context = 32;
    const rope_table table(config);
    for (const isa_level level : usable_isa_levels()) {
      std::vector<float> row = random_floats(16, 3);
      const std::vector<float> before = row;
      operations_of(level).rope(row.data(), 2, 8, table.cosines(5), table.sines(5));
      for (std::size_t head = 0; head < 2; ++head)
        for (std::size_t i = 0; i < 4; ++i) {
          const double angle = 5.0 / std::pow(10000.0, static_cast<double>(2 * i) / 8.0);
          const double a = before[head * 8 + i];
          const double b = before[head * 8 + 4 + i];
          CHECK(row[head * 8 + i] ==
                doctest::Approx(a * std::cos(angle) - b * std::sin(angle)).epsilon(1e-5));
          CHECK(row[head * 8 + 4 + i] ==
                doctest::Approx(b * std::cos(angle) + a * std::sin(angle)).epsilon(1e-5));
        }
    }
  }

  TEST_CASE("log-sum-exp is exact to float precision and survives large logits") {
    for (const isa_level level : usable_isa_levels())
      for (const std::size_t size : {1U, 5U, 16U, 260U}) {
        std::vector<float> x = random_floats(size, 4);
        for (float& value : x)
          value = value * 8.0F + 500.0F;
        double total = 0.0;
        for (const float value : x)
          total += std::exp(double{value} - 500.0);
        const float got = operations_of(level).log_sum_exp(x.data(), size);
        CHECK(got == doctest::Approx(500.0 + std::log(total)).epsilon(1e-6));
      }
  }

  TEST_CASE("attention matches the definition, and no cut of the cache changes a bit") {
    const attention_case cases[] = {{4, 4, 32, 1}, {4, 4, 32, 33}, {4, 2, 16, 50}, {6, 1, 20, 17}};
    for (const isa_level level : usable_isa_levels())
      for (const attention_case& c : cases) {
        CAPTURE(to_string(level));
        CAPTURE(c.tokens);
        const operations& ops = operations_of(level);
        const std::size_t kv_width = c.kv_heads * c.head_size;
        const std::vector<float> query = random_floats(c.heads * c.head_size, 5);
        const std::vector<float> keys = random_floats(c.tokens * kv_width, 6);
        const std::vector<float> values = random_floats(c.tokens * kv_width, 7);
        const std::vector<float> whole = run_attention(ops, c, query, keys, values, c.tokens);
        const std::vector<double> exact = exact_attention(c, query, keys, values);
        for (std::size_t i = 0; i < whole.size(); ++i)
          CHECK(std::abs(double{whole[i]} - exact[i]) <= 1e-5);
        for (const std::size_t run_tokens : {16U, 8U, 5U})
          CHECK(run_attention(ops, c, query, keys, values, run_tokens) == whole);
      }
  }

  TEST_CASE("AVX2 and AVX-512 give the same bits") {
    if (detected_isa() < isa_level::avx512) {
      MESSAGE("skipped: this processor has no AVX-512");
      return;
    }
    const operations& narrow = operations_of(isa_level::avx2);
    const operations& wide = operations_of(isa_level::avx512);
    const std::vector<float> x = random_floats(301, 8);
    const std::vector<float> weight = random_floats(301, 9);
    std::vector<float> a(301), b(301);
    CHECK(narrow.rms_norm(x.data(), weight.data(), a.data(), 301, 1e-5F) ==
          wide.rms_norm(x.data(), weight.data(), b.data(), 301, 1e-5F));
    CHECK(a == b);
    CHECK(narrow.log_sum_exp(x.data(), 301) == wide.log_sum_exp(x.data(), 301));
    narrow.swiglu(x.data(), weight.data(), a.data(), 301);
    wide.swiglu(x.data(), weight.data(), b.data(), 301);
    CHECK(a == b);
    const attention_case c{4, 2, 20, 37};
    const std::vector<float> keys = random_floats(37 * 40, 10);
    const std::vector<float> values = random_floats(37 * 40, 11);
    CHECK(run_attention(narrow, c, x, keys, values, 16) ==
          run_attention(wide, c, x, keys, values, 16));
  }
}
