/// The model in double, one sequence at a time, straight from its definition: the specification
/// that the kernels are compared with, and what finite differences are taken of.
#pragma once

#include "kernels/model.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::kernels {

class reference_model {
public:
  reference_model(const model_config& config, std::vector<double> weights)
      : config_(config), layout_(config), weights_(std::move(weights)) {}

  std::vector<double>& weights() { return weights_; }
  const parameter_layout& layout() const { return layout_; }

  /// Log-probability of tokens[first...] given what comes before each.
  std::vector<double> logprobs(std::span<const std::uint32_t> tokens, std::size_t first) const {
    std::vector<std::vector<double>> x;
    for (const std::uint32_t token : tokens)
      x.push_back(take(layout_.embedding + token * config_.hidden, config_.hidden));
    for (const layer_offsets& at : layout_.layers)
      run_layer(at, x);
    std::vector<double> result;
    for (std::size_t t = first; t < tokens.size(); ++t) {
      const auto normed = norm(x[t - 1], layout_.final_norm);
      const auto logits = product(layout_.head, config_.vocabulary, normed);
      double total = 0.0;
      for (const double logit : logits)
        total += std::exp(logit);
      result.push_back(logits[tokens[t]] - std::log(total));
    }
    return result;
  }

private:
  std::vector<double> take(std::size_t offset, std::size_t count) const {
    const auto from = weights_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {from, from + static_cast<std::ptrdiff_t>(count)};
  }

  std::vector<double> norm(const std::vector<double>& x, std::size_t weight) const {
    double squares = 0.0;
    for (const double value : x)
      squares += value * value;
    const double scale =
        1.0 / std::sqrt(squares / static_cast<double>(x.size()) + double{config_.rms_epsilon});
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] * scale * weights_[weight + i];
    return y;
  }

  std::vector<double> product(std::size_t weight, std::size_t outputs, const std::vector<double>& x,
                              std::size_t bias = layer_offsets::absent) const {
    std::vector<double> y(outputs);
    for (std::size_t o = 0; o < outputs; ++o) {
      y[o] = bias == layer_offsets::absent ? 0.0 : weights_[bias + o];
      for (std::size_t i = 0; i < x.size(); ++i)
        y[o] += weights_[weight + o * x.size() + i] * x[i];
    }
    return y;
  }

  /// Head norm and rotation of one row of queries or keys.
  void turn(std::vector<double>& row, std::size_t position, std::size_t norm_weight) const {
    const std::size_t size = config_.head_size;
    for (std::size_t head = 0; head < row.size(); head += size) {
      std::vector<double> one(row.begin() + static_cast<std::ptrdiff_t>(head),
                              row.begin() + static_cast<std::ptrdiff_t>(head + size));
      if (norm_weight != layer_offsets::absent) one = norm(one, norm_weight);
      for (std::size_t i = 0; i < size / 2; ++i) {
        const double angle =
            static_cast<double>(position) /
            std::pow(double{config_.rope_theta}, static_cast<double>(2 * i) / double(size));
        row[head + i] = one[i] * std::cos(angle) - one[i + size / 2] * std::sin(angle);
        row[head + i + size / 2] = one[i + size / 2] * std::cos(angle) + one[i] * std::sin(angle);
      }
    }
  }

  void run_layer(const layer_offsets& at, std::vector<std::vector<double>>& x) const {
    const std::size_t query = std::size_t{config_.heads} * config_.head_size;
    const std::size_t key = std::size_t{config_.kv_heads} * config_.head_size;
    std::vector<std::vector<double>> q, k, v;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const auto normed = norm(x[t], at.input_norm);
      q.push_back(product(at.q, query, normed, at.q_bias));
      k.push_back(product(at.k, key, normed, at.k_bias));
      v.push_back(product(at.v, key, normed, at.v_bias));
      turn(q.back(), t, at.q_norm);
      turn(k.back(), t, at.k_norm);
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      const auto attended = product(at.o, config_.hidden, attention(q[t], k, v, t));
      for (std::size_t i = 0; i < attended.size(); ++i)
        x[t][i] += attended[i];
      const auto normed = norm(x[t], at.post_norm);
      auto gate = product(at.gate, config_.ffn, normed);
      const auto up = product(at.up, config_.ffn, normed);
      for (std::size_t i = 0; i < gate.size(); ++i)
        gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
      const auto down = product(at.down, config_.hidden, gate);
      for (std::size_t i = 0; i < down.size(); ++i)
        x[t][i] += down[i];
    }
  }

  std::vector<double> attention(const std::vector<double>& q,
                                const std::vector<std::vector<double>>& k,
                                const std::vector<std::vector<double>>& v, std::size_t last) const {
    const std::size_t size = config_.head_size;
    std::vector<double> output(q.size(), 0.0);
    for (std::size_t head = 0; head < config_.heads; ++head) {
      const std::size_t kv = head / (config_.heads / config_.kv_heads) * size;
      std::vector<double> weights(last + 1);
      double total = 0.0;
      for (std::size_t t = 0; t <= last; ++t) {
        double score = 0.0;
        for (std::size_t f = 0; f < size; ++f)
          score += q[head * size + f] * k[t][kv + f];
        weights[t] = std::exp(score / std::sqrt(static_cast<double>(size)));
        total += weights[t];
      }
      for (std::size_t t = 0; t <= last; ++t)
        for (std::size_t f = 0; f < size; ++f)
          output[head * size + f] += weights[t] / total * v[t][kv + f];
    }
    return output;
  }

  model_config config_;
  parameter_layout layout_;
  std::vector<double> weights_;
};

} // namespace weir::kernels
