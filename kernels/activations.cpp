#include "kernels/activations.hpp"

namespace weir::kernels {

namespace {

/// Hands out consecutive pieces, each at a multiple of 64 bytes.
class carver {
public:
  explicit carver(float* base) : base_(base) {}

  float* take(std::size_t count) {
    const std::size_t offset = used_;
    used_ += (count + 15) / 16 * 16;
    return base_ == nullptr ? nullptr : base_ + offset;
  }
  [[nodiscard]] std::size_t used() const { return used_; }

private:
  float* base_;
  std::size_t used_ = 0;
};

} // namespace

void activations::prepare(const row_plan& plan) {
  const std::size_t needed = place(plan, nullptr);
  if (needed > storage_.size()) storage_ = float_buffer(needed + needed / 4);
  place(plan, storage_.data());
}

std::size_t activations::place(const row_plan& plan, float* base) {
  const std::size_t rows = plan.rows();
  const std::size_t head_rows = plan.head_rows().size();
  const std::size_t hidden = rows * config_.hidden;
  const std::size_t query = rows * config_.heads * config_.head_size;
  const std::size_t key = rows * config_.kv_heads * config_.head_size;
  const std::size_t ffn = rows * config_.ffn;
  carver carve(base);
  layers.resize(config_.layers);
  for (layer_activations& layer : layers) {
    layer.x = carve.take(hidden);
    layer.normed = carve.take(hidden);
    layer.scale = carve.take(rows);
    layer.q = carve.take(query);
    layer.k = carve.take(key);
    layer.v = carve.take(key);
    if (config_.qk_norm) {
      layer.q_raw = carve.take(query);
      layer.k_raw = carve.take(key);
      layer.q_scale = carve.take(rows * config_.heads);
      layer.k_scale = carve.take(rows * config_.kv_heads);
    }
    layer.mixed = carve.take(query);
    layer.middle = carve.take(hidden);
    layer.middle_normed = carve.take(hidden);
    layer.middle_scale = carve.take(rows);
    layer.gate = carve.take(ffn);
    layer.up = carve.take(ffn);
    layer.active = carve.take(ffn);
  }
  last = carve.take(hidden);
  head_normed = carve.take(head_rows * config_.hidden);
  head_scale = carve.take(head_rows);
  logits = carve.take(head_rows * config_.vocabulary);
  log_sums = carve.take(head_rows);
  // 16 more than the rows: attention reads whole vectors of 16 tokens.
  turned_stride = (rows + 15) / 16 * 16 + 16;
  const std::size_t turned = std::size_t{config_.kv_heads} * config_.head_size * turned_stride;
  keys_turned = carve.take(turned);
  values_turned = carve.take(turned);
  attention_scratch = carve.take(3 * (plan.longest() + 32));
  dx = carve.take(hidden);
  dnormed = carve.take(hidden); // Head rows are rows: never more.
  dq = carve.take(query);
  dk = carve.take(key);
  dv = carve.take(key);
  dmixed = carve.take(query);
  dactive = carve.take(ffn);
  return carve.used();
}

} // namespace weir::kernels
