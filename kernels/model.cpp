#include "kernels/model.hpp"

#include "kernels/detail/text.hpp"
#include "kernels/philox.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <utility>

namespace weir::kernels {

using detail::text;

namespace {

constexpr std::size_t alignment_bytes = 64;
constexpr std::size_t alignment_floats = alignment_bytes / sizeof(float);
/// Of weights and moments, which are written from where they lie: fewer pages for the disk to look
/// up, and for the processor.
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Appends parameters one after the other, each at a multiple of 64 bytes.
class layout_builder {
public:
  explicit layout_builder(std::vector<parameter>& parameters) : parameters_(parameters) {}

  std::size_t add(std::string name, std::vector<std::uint64_t> shape) {
    std::size_t count = 1;
    for (const std::uint64_t extent : shape)
      count *= static_cast<std::size_t>(extent);
    const std::size_t offset = end_;
    end_ += (count + alignment_floats - 1) / alignment_floats * alignment_floats;
    parameters_.push_back({std::move(name), std::move(shape), offset, count});
    return offset;
  }

  [[nodiscard]] std::size_t end() const { return end_; }

private:
  std::vector<parameter>& parameters_;
  std::size_t end_ = 0;
};

layer_offsets add_layer(layout_builder& builder, const model_config& config, std::size_t index) {
  const std::string prefix = text("model.layers.", index, ".");
  const std::string attention = prefix + "self_attn.";
  const std::uint64_t query = std::uint64_t{config.heads} * config.head_size;
  const std::uint64_t key = std::uint64_t{config.kv_heads} * config.head_size;
  const std::uint64_t hidden = config.hidden;
  const std::uint64_t ffn = config.ffn;

  layer_offsets at;
  at.input_norm = builder.add(prefix + "input_layernorm.weight", {hidden});
  at.q = builder.add(attention + "q_proj.weight", {query, hidden});
  at.k = builder.add(attention + "k_proj.weight", {key, hidden});
  at.v = builder.add(attention + "v_proj.weight", {key, hidden});
  at.o = builder.add(attention + "o_proj.weight", {hidden, query});
  if (config.attention_bias) {
    at.q_bias = builder.add(attention + "q_proj.bias", {query});
    at.k_bias = builder.add(attention + "k_proj.bias", {key});
    at.v_bias = builder.add(attention + "v_proj.bias", {key});
  }
  if (config.qk_norm) {
    at.q_norm = builder.add(attention + "q_norm.weight", {config.head_size});
    at.k_norm = builder.add(attention + "k_norm.weight", {config.head_size});
  }
  at.post_norm = builder.add(prefix + "post_attention_layernorm.weight", {hidden});
  at.gate = builder.add(prefix + "mlp.gate_proj.weight", {ffn, hidden});
  at.up = builder.add(prefix + "mlp.up_proj.weight", {ffn, hidden});
  at.down = builder.add(prefix + "mlp.down_proj.weight", {hidden, ffn});
  return at;
}

/// Two normal numbers from one block. The logarithm and the cosine are those of the C library in
/// double; rounding to float hides its last bits.
void normal_pair(philox_block bits, float scale, float* to, std::size_t count) {
  constexpr double unit = 1.0 / 4294967296.0;
  const double u = (static_cast<double>(bits.words[0]) + 0.5) * unit;
  const double v = (static_cast<double>(bits.words[1]) + 0.5) * unit;
  const double radius = std::sqrt(-2.0 * std::log(u)) * static_cast<double>(scale);
  const double angle = 2.0 * std::numbers::pi * v;
  to[0] = static_cast<float>(radius * std::cos(angle));
  if (count > 1) to[1] = static_cast<float>(radius * std::sin(angle));
}

bool ends_with(const std::string& name, std::string_view ending) {
  return name.size() >= ending.size() &&
         name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

result<void> refuse(std::string text) {
  return failure(errc::invalid_argument, std::move(text));
}

} // namespace

result<void> validate(const model_config& config) {
  const std::pair<const char*, std::uint32_t> sizes[] = {
      {"vocabulary", config.vocabulary},
      {"hidden", config.hidden},
      {"layers", config.layers},
      {"heads", config.heads},
      {"kv_heads", config.kv_heads},
      {"head_size", config.head_size},
      {"ffn", config.ffn},
      {"context", config.context},
  };
  constexpr std::uint32_t size_limit = 1U << 20;
  for (const auto& [name, size] : sizes)
    if (size == 0 || size > size_limit)
      return refuse(text("policy.architecture: ", name, " is ", size, ", must be between 1 and ",
                         size_limit));
  if (config.heads % config.kv_heads != 0)
    return refuse(text("policy.architecture: kv_heads ", config.kv_heads, " does not divide heads ",
                       config.heads));
  if (config.head_size % 2 != 0)
    return refuse(text("policy.architecture: head_size ", config.head_size,
                       " is odd, rotary embeddings need pairs"));
  if (!(config.rope_theta > 0.0F) || !(config.rms_epsilon > 0.0F))
    return refuse("policy.architecture: rope_theta and rms_epsilon must be positive");
  return {};
}

parameter_layout::parameter_layout(const model_config& config) {
  layout_builder builder(parameters);
  embedding = builder.add("model.embed_tokens.weight", {config.vocabulary, config.hidden});
  layers.reserve(config.layers);
  for (std::uint32_t index = 0; index < config.layers; ++index)
    layers.push_back(add_layer(builder, config, index));
  final_norm = builder.add("model.norm.weight", {config.hidden});
  head = config.tied_embeddings ? embedding
                                : builder.add("lm_head.weight", {config.vocabulary, config.hidden});
  total = builder.end();
}

float_buffer::float_buffer(std::size_t count) : size_(count) {
  if (count == 0) return;
  const bool is_large = count * sizeof(float) >= huge_page_bytes;
  const std::size_t unit = is_large ? huge_page_bytes : alignment_bytes;
  const std::size_t padded = (count * sizeof(float) + unit - 1) / unit * unit;
  data_ = static_cast<float*>(std::aligned_alloc(unit, padded));
  ensure(data_ != nullptr, "memory for a float buffer is available");
  if (is_large) static_cast<void>(::madvise(data_, padded, MADV_HUGEPAGE)); // Where it is granted.
  std::memset(data_, 0, std::min(padded, count * sizeof(float) + alignment_bytes));
}

float_buffer::float_buffer(float_buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

float_buffer& float_buffer::operator=(float_buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

float_buffer::~float_buffer() {
  std::free(data_);
}

float_buffer initial_weights(const model_config& config, std::uint64_t seed) {
  const parameter_layout layout(config);
  float_buffer weights(layout.total);
  const float residual = 0.02F / std::sqrt(2.0F * static_cast<float>(config.layers));
  constexpr std::uint64_t domain = 0x7765696768747300; // "weights"
  const philox_key key = make_philox_key(seed ^ domain);
  std::uint32_t index = 0;
  for (const parameter& item : layout.parameters) {
    float* to = weights.data() + item.offset;
    const bool is_norm = ends_with(item.name, "norm.weight");
    const bool is_residual =
        ends_with(item.name, "o_proj.weight") || ends_with(item.name, "down_proj.weight");
    ++index;
    if (is_norm) {
      for (std::size_t i = 0; i < item.count; ++i)
        to[i] = 1.0F;
      continue;
    }
    if (ends_with(item.name, ".bias")) continue;
    for (std::size_t i = 0; i < item.count; i += 2) {
      const std::uint64_t pair = i / 2;
      const philox_block counter{
          {static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(pair >> 32), index, 0}};
      normal_pair(philox4x32(counter, key), is_residual ? residual : 0.02F, to + i, item.count - i);
    }
  }
  return weights;
}

} // namespace weir::kernels
