#include "kernels/optimizer.hpp"
#include "tests/kernels/training_data.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace weir;
using namespace weir::kernels;

namespace {

/// AdamW transcribed from the paper (algorithm 2 with a constant schedule), in double.
struct literal_adamw {
  std::vector<double> weights, m, v;
  int t = 0;

  void step(const std::vector<float>& gradients, const optimizer_options& o, double scale) {
    ++t;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double g = double{gradients[i]} * scale;
      m[i] = o.beta1 * m[i] + (1.0 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1.0 - o.beta2) * g * g;
      const double m_hat = m[i] / (1.0 - std::pow(o.beta1, t));
      const double v_hat = v[i] / (1.0 - std::pow(o.beta2, t));
      weights[i] -= o.lr * o.weight_decay * weights[i];
      weights[i] -= o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
    }
  }
};

} // namespace

TEST_SUITE("kernels/optimizer") {
  TEST_CASE("AdamW follows the paper's algorithm, at every level and number of threads") {
    const model_config config = tiny_config();
    const optimizer_options options{.lr = 1e-2, .weight_decay = 0.1};
    for (const isa_level level : usable_isa_levels())
      for (const std::uint32_t threads : {1U, 2U}) {
        thread_pool pool({.threads = threads});
        training_state now = begin_training(config, lively_weights(config, 1));
        training_state next;
        const std::size_t total = now.weights.size();
        literal_adamw wanted{{now.weights.values().begin(), now.weights.values().end()},
                             std::vector<double>(total),
                             std::vector<double>(total)};
        for (std::uint64_t step = 1; step <= 5; ++step) {
          const std::vector<float> gradients = random_floats(total, step);
          adamw_step(operations_of(level), pool, options, now, gradients, 0.5, next);
          wanted.step(gradients, options, 0.5);
          std::swap(now, next);
          CHECK(now.optimizer_step == step);
        }
        double worst = 0.0;
        for (std::size_t i = 0; i < total; ++i)
          worst = std::max(worst, std::abs(double{now.weights.data()[i]} - wanted.weights[i]));
        CHECK(worst <= 2e-6);
      }
  }

  TEST_CASE("the state before a step stays as it was") {
    const model_config config = tiny_config();
    thread_pool pool({});
    const training_state before = begin_training(config, lively_weights(config, 2));
    const std::vector<float> kept(before.weights.values().begin(), before.weights.values().end());
    training_state after;
    adamw_step(operations_of(isa_level::generic), pool, {}, before,
               random_floats(before.weights.size(), 3), 1.0, after);
    CHECK(std::equal(kept.begin(), kept.end(), before.weights.data()));
    CHECK(before.optimizer_step == 0);
    CHECK(before.first_moments.values()[0] == 0.0F);
    CHECK(after.first_moments.values()[0] != 0.0F);
  }

  TEST_CASE("the first step moves each weight by the learning rate, whatever the gradient's size") {
    const model_config config = tiny_config();
    thread_pool pool({});
    const training_state before = begin_training(config, lively_weights(config, 4));
    training_state after;
    std::vector<float> gradients(before.weights.size(), 1e-3F);
    gradients[1] = -50.0F;
    adamw_step(operations_of(detected_isa()), pool, {.lr = 0.01}, before, gradients, 1.0, after);
    CHECK(after.weights.data()[0] == doctest::Approx(before.weights.data()[0] - 0.01F));
    CHECK(after.weights.data()[1] == doctest::Approx(before.weights.data()[1] + 0.01F));
  }

  TEST_CASE("the global norm adds fixed blocks in double") {
    const std::vector<float> values = random_floats(20000, 5);
    double squares = 0.0;
    for (const float value : values)
      squares += double{value} * double{value};
    for (const isa_level level : usable_isa_levels())
      CHECK(global_norm(operations_of(level), values) ==
            doctest::Approx(std::sqrt(squares)).epsilon(1e-6));
    CHECK(global_norm(operations_of(isa_level::generic), {}) == 0.0);
  }

  TEST_CASE("options without meaning are refused by key") {
    const auto text_of = [](const optimizer_options& options) {
      const result<void> valid = validate(options);
      return valid ? std::string() : valid.error().text;
    };
    CHECK(text_of({}).empty());
    CHECK(text_of({.lr = -1.0}).find("policy.optimizer.lr") == 0);
    CHECK(text_of({.beta1 = 1.0}).find("policy.optimizer.beta1") == 0);
    CHECK(text_of({.beta2 = -0.5}).find("policy.optimizer.beta2") == 0);
    CHECK(text_of({.eps = 0.0}).find("policy.optimizer.eps") == 0);
    CHECK(text_of({.weight_decay = -0.5}).find("policy.optimizer.weight_decay") == 0);
    CHECK(text_of({.max_grad_norm = std::nan("")}).find("policy.max_grad_norm") == 0);
  }
}
