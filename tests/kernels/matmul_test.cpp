#include "kernels/matmul.hpp"
#include "tests/kernels/random_floats.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace weir::kernels;

namespace {

struct product_case {
  std::size_t rows, outputs, inputs;
};

constexpr product_case cases[] = {{1, 1, 1},     {1, 260, 128}, {13, 37, 29},  {12, 32, 16},
                                  {27, 48, 128}, {5, 128, 33},  {240, 96, 64}, {7, 17, 3}};

std::vector<float> product(const operations& ops, const product_case& c,
                           const std::vector<float>& x, const std::vector<float>& w) {
  packed_matrix packed(c.outputs, c.inputs);
  packed.pack(w.data());
  std::vector<float> y(c.rows * c.outputs);
  multiply(ops, {x.data(), c.rows, c.inputs, c.inputs}, packed,
           {y.data(), c.rows, c.outputs, c.outputs});
  return y;
}

double exact_element(const product_case& c, const std::vector<float>& x,
                     const std::vector<float>& w, std::size_t row, std::size_t output) {
  double total = 0.0;
  for (std::size_t k = 0; k < c.inputs; ++k)
    total += double{x[row * c.inputs + k]} * double{w[output * c.inputs + k]};
  return total;
}

std::vector<float> transpose(const std::vector<float>& m, std::size_t rows, std::size_t columns) {
  std::vector<float> result(m.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      result[c * rows + r] = m[r * columns + c];
  return result;
}

} // namespace

TEST_SUITE("kernels/matmul") {
  TEST_CASE("a packed product matches the definition at every level and shape") {
    for (const isa_level level : usable_isa_levels())
      for (const product_case& c : cases) {
        CAPTURE(to_string(level));
        CAPTURE(c.rows);
        const std::vector<float> x = random_floats(c.rows * c.inputs, 1);
        const std::vector<float> w = random_floats(c.outputs * c.inputs, 2);
        const std::vector<float> y = product(operations_of(level), c, x, w);
        double worst = 0.0;
        for (std::size_t row = 0; row < c.rows; ++row)
          for (std::size_t output = 0; output < c.outputs; ++output)
            worst = std::max(worst, std::abs(double{y[row * c.outputs + output]} -
                                             exact_element(c, x, w, row, output)));
        CHECK(worst <= 1e-5);
      }
  }

  TEST_CASE("a row has the same bits alone, in a batch and at another place of it") {
    for (const isa_level level : usable_isa_levels()) {
      const operations& ops = operations_of(level);
      const product_case batch{29, 260, 128};
      const std::vector<float> x = random_floats(batch.rows * batch.inputs, 3);
      const std::vector<float> w = random_floats(batch.outputs * batch.inputs, 4);
      const std::vector<float> together = product(ops, batch, x, w);
      for (std::size_t row = 0; row < batch.rows; ++row) {
        const auto first = x.begin() + static_cast<std::ptrdiff_t>(row * batch.inputs);
        const std::vector<float> one(first, first + static_cast<std::ptrdiff_t>(batch.inputs));
        const std::vector<float> alone = product(ops, {1, batch.outputs, batch.inputs}, one, w);
        CHECK(std::equal(alone.begin(), alone.end(),
                         together.begin() + static_cast<std::ptrdiff_t>(row * batch.outputs)));
      }
    }
  }

  TEST_CASE("panels computed apart are the whole product, and AVX2 equals AVX-512") {
    const product_case c{9, 100, 50};
    const std::vector<float> x = random_floats(c.rows * c.inputs, 5);
    const std::vector<float> w = random_floats(c.outputs * c.inputs, 6);
    packed_matrix packed(c.outputs, c.inputs);
    packed.pack(w.data());
    const std::vector<isa_level> levels = usable_isa_levels();
    for (const isa_level level : levels) {
      const operations& ops = operations_of(level);
      std::vector<float> y(c.rows * c.outputs);
      for (std::size_t panel = packed.panels(); panel-- > 0;)
        multiply_panels(ops, {x.data(), c.rows, c.inputs, c.inputs}, packed,
                        {y.data(), c.rows, c.outputs, c.outputs}, panel, 1);
      CHECK(y == product(ops, c, x, w));
    }
    if (detected_isa() >= isa_level::avx512)
      CHECK(product(operations_of(isa_level::avx2), c, x, w) ==
            product(operations_of(isa_level::avx512), c, x, w));
  }

  TEST_CASE("the transposed forms give the bits of the packed product, added to what was there") {
    for (const isa_level level : usable_isa_levels())
      for (const product_case& c : cases) {
        const operations& ops = operations_of(level);
        const std::vector<float> x = random_floats(c.rows * c.inputs, 7);
        const std::vector<float> w = random_floats(c.outputs * c.inputs, 8);
        const std::vector<float> wanted = product(ops, c, x, w);
        const std::vector<float> columns = transpose(w, c.outputs, c.inputs);
        std::vector<float> plain(wanted.size(), 9.0F);
        multiply_plain(ops, {x.data(), c.rows, c.inputs, c.inputs},
                       {columns.data(), c.inputs, c.outputs, c.outputs},
                       {plain.data(), c.rows, c.outputs, c.outputs}, write_mode::overwrite);
        CHECK(plain == wanted);
        const std::vector<float> x_columns = transpose(x, c.rows, c.inputs);
        std::vector<float> turned(wanted.size(), 0.0F);
        multiply_transposed(ops, {x_columns.data(), c.inputs, c.rows, c.rows},
                            {columns.data(), c.inputs, c.outputs, c.outputs},
                            {turned.data(), c.rows, c.outputs, c.outputs}, write_mode::accumulate);
        CHECK(turned == wanted);
        multiply_transposed(ops, {x_columns.data(), c.inputs, c.rows, c.rows},
                            {columns.data(), c.inputs, c.outputs, c.outputs},
                            {turned.data(), c.rows, c.outputs, c.outputs}, write_mode::accumulate);
        CHECK(turned[0] == doctest::Approx(2.0F * wanted[0]));
      }
  }
}
