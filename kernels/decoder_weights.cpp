#include "kernels/decoder_weights.hpp"

#include <algorithm>

namespace weir::kernels {

packed_weights::packed_weights(const model_config& config, const parameter_layout& layout)
    : layout_(layout), head_(config.vocabulary, config.hidden) {
  const std::size_t q_size = std::size_t{config.heads} * config.head_size;
  const std::size_t kv_size = std::size_t{config.kv_heads} * config.head_size;
  for (std::uint32_t layer = 0; layer < config.layers; ++layer)
    layers_.push_back({.q = packed_matrix(q_size, config.hidden),
                       .k = packed_matrix(kv_size, config.hidden),
                       .v = packed_matrix(kv_size, config.hidden),
                       .o = packed_matrix(config.hidden, q_size),
                       .gate = packed_matrix(config.ffn, config.hidden),
                       .up = packed_matrix(config.ffn, config.hidden),
                       .down = packed_matrix(config.hidden, config.ffn)});
}

void packed_weights::load(const published_weights& weights) {
  ensure(weights.count == layout_.total, "weights have the size of the model's layout");
  values_ = weights.values;
  version_ = weights.version;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const layer_offsets& offsets = layout_.layers[layer];
    layer_matrices& packed = layers_[layer];
    packed.q.pack(at(offsets.q));
    packed.k.pack(at(offsets.k));
    packed.v.pack(at(offsets.v));
    packed.o.pack(at(offsets.o));
    packed.gate.pack(at(offsets.gate));
    packed.up.pack(at(offsets.up));
    packed.down.pack(at(offsets.down));
  }
  head_.pack(at(layout_.head));
}

weight_shelf::weight_shelf(const model_config& config, const parameter_layout& layout,
                           std::size_t earlier)
    : config_(config), layout_(layout) {
  for (std::size_t place = 0; place < earlier + 1; ++place)
    places_.push_back(std::make_unique<packed_weights>(config, layout));
}

void weight_shelf::put(const published_weights& weights, std::span<const std::uint64_t> pinned) {
  packed_weights& place = place_for(weights.version, pinned);
  place.load(weights);
  current_ = &place;
}

const packed_weights* weight_shelf::find(std::uint64_t version) const {
  for (const auto& place : places_)
    if (place->loaded() && place->version() == version) return place.get();
  return nullptr;
}

std::string weight_shelf::versions() const {
  std::vector<std::uint64_t> held;
  for (const auto& place : places_)
    if (place->loaded()) held.push_back(place->version());
  std::ranges::sort(held);
  std::string text;
  for (const std::uint64_t version : held)
    text += (text.empty() ? "" : ", ") + std::to_string(version);
  return text;
}

/// The same version, an empty place, or that of the lowest version which nobody needs.
packed_weights& weight_shelf::place_for(std::uint64_t version,
                                        std::span<const std::uint64_t> pinned) {
  packed_weights* empty = nullptr;
  packed_weights* lowest = nullptr;
  for (const auto& place : places_) {
    if (!place->loaded()) {
      empty = place.get();
      continue;
    }
    if (place->version() == version) return *place;
    const bool needed = std::ranges::find(pinned, place->version()) != pinned.end();
    if (needed || (lowest != nullptr && lowest->version() < place->version())) continue;
    lowest = place.get();
  }
  if (empty != nullptr) return *empty;
  if (lowest != nullptr) return *lowest;
  places_.push_back(std::make_unique<packed_weights>(config_, layout_));
  return *places_.back();
}

} // namespace weir::kernels
