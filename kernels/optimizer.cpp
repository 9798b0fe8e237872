#include "kernels/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::kernels {

namespace {

constexpr std::size_t norm_block = 4096;
constexpr std::size_t update_block = 65536;

void fit(float_buffer& buffer, std::size_t count) {
  if (buffer.size() != count) buffer = float_buffer(count);
}

result<void> refuse(const char* text) {
  return failure(errc::invalid_argument, text);
}

} // namespace

result<void> validate(const optimizer_options& options) {
  if (!(options.lr >= 0.0) || !std::isfinite(options.lr))
    return refuse("policy.optimizer.lr must be a number that is not negative");
  if (!(options.beta1 >= 0.0 && options.beta1 < 1.0))
    return refuse("policy.optimizer.beta1 must be at least 0 and below 1");
  if (!(options.beta2 >= 0.0 && options.beta2 < 1.0))
    return refuse("policy.optimizer.beta2 must be at least 0 and below 1");
  if (!(options.eps > 0.0)) return refuse("policy.optimizer.eps must be positive");
  if (!(options.weight_decay >= 0.0))
    return refuse("policy.optimizer.weight_decay must not be negative");
  if (!(options.max_grad_norm >= 0.0))
    return refuse("policy.max_grad_norm must not be negative (0 = no clipping)");
  return {};
}

training_state begin_training(const model_config& config, float_buffer weights) {
  ensure(weights.size() == parameter_layout(config).total, "weights have the layout's size");
  training_state state;
  state.config = config;
  state.first_moments = float_buffer(weights.size());
  state.second_moments = float_buffer(weights.size());
  state.weights = std::move(weights);
  return state;
}

double global_norm(const operations& ops, std::span<const float> gradients) {
  double squares = 0.0;
  for (std::size_t first = 0; first < gradients.size(); first += norm_block) {
    const std::size_t count = std::min(norm_block, gradients.size() - first);
    squares += double{ops.sum_of_squares(gradients.data() + first, count)};
  }
  return std::sqrt(squares);
}

void adamw_step(const operations& ops, thread_pool& pool, const optimizer_options& options,
                const training_state& before, std::span<const float> gradients,
                double gradient_scale, training_state& after) {
  const std::size_t total = before.weights.size();
  ensure(&before != &after, "the state before the step is kept");
  ensure(gradients.size() == total && before.first_moments.size() == total &&
             before.second_moments.size() == total,
         "gradients and moments have the size of the weights");
  after.config = before.config;
  after.optimizer_step = before.optimizer_step + 1;
  fit(after.weights, total);
  fit(after.first_moments, total);
  fit(after.second_moments, total);

  const auto step = static_cast<double>(after.optimizer_step);
  const double correction1 = 1.0 - std::pow(options.beta1, step);
  const double correction2 = 1.0 - std::pow(options.beta2, step);
  auto update = [&](std::size_t block, std::size_t) {
    const std::size_t first = block * update_block;
    adamw_operands o;
    o.weights = before.weights.data() + first;
    o.first_moments = before.first_moments.data() + first;
    o.second_moments = before.second_moments.data() + first;
    o.gradients = gradients.data() + first;
    o.weights_after = after.weights.data() + first;
    o.first_moments_after = after.first_moments.data() + first;
    o.second_moments_after = after.second_moments.data() + first;
    o.size = std::min(update_block, total - first);
    o.gradient_scale = static_cast<float>(gradient_scale);
    o.beta1 = static_cast<float>(options.beta1);
    o.beta2 = static_cast<float>(options.beta2);
    o.step_size = static_cast<float>(options.lr / correction1);
    o.inverse_correction2 = static_cast<float>(1.0 / correction2);
    o.epsilon = static_cast<float>(options.eps);
    o.decay = static_cast<float>(options.lr * options.weight_decay);
    ops.adamw(o);
  };
  pool.run((total + update_block - 1) / update_block, update);
}

} // namespace weir::kernels
