#include "kernels/model.hpp"
#include "tests/kernels/training_data.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <utility>

using namespace weir;
using namespace weir::kernels;

TEST_SUITE("kernels/model") {
  TEST_CASE("the layout names tensors as Hugging Face does, aligned and without overlap") {
    model_config config = tiny_config();
    config.attention_bias = true;
    config.qk_norm = true;
    config.tied_embeddings = false;
    const parameter_layout layout(config);
    std::size_t end = 0;
    for (const parameter& item : layout.parameters) {
      CHECK(item.offset % 16 == 0);
      CHECK(item.offset >= end);
      end = item.offset + item.count;
    }
    CHECK(layout.total >= end);
    CHECK(layout.parameters.front().name == "model.embed_tokens.weight");
    CHECK(layout.parameters.back().name == "lm_head.weight");
    CHECK(layout.parameters[1].name == "model.layers.0.input_layernorm.weight");
    CHECK(layout.parameters[3].name == "model.layers.0.self_attn.k_proj.weight");
    CHECK(layout.parameters[3].shape == std::vector<std::uint64_t>{12, 24});
    CHECK(layout.head != layout.embedding);
    CHECK(layout.layers[1].q_norm != layer_offsets::absent);
  }

  TEST_CASE("tied embeddings and absent biases take no room") {
    const parameter_layout layout(tiny_config());
    CHECK(layout.head == layout.embedding);
    CHECK(layout.layers[0].q_bias == layer_offsets::absent);
    CHECK(layout.layers[0].k_norm == layer_offsets::absent);
    CHECK(layout.parameters.size() == 2 + 2 * 9);
  }

  TEST_CASE("the default policy has 0.89 million parameters") {
    std::size_t count = 0;
    for (const parameter& item : parameter_layout(model_config{}).parameters)
      count += item.count;
    CHECK(count == 886'400);
  }

  TEST_CASE("shapes that contradict themselves are refused by key") {
    const auto text_of = [](auto change) {
      model_config config;
      change(config);
      const result<void> valid = validate(config);
      return valid ? std::string() : valid.error().text;
    };
    CHECK(text_of([](model_config&) {}).empty());
    CHECK(text_of([](model_config& c) { c.layers = 0; }).find("layers is 0") != std::string::npos);
    CHECK(text_of([](model_config& c) { c.kv_heads = 3; }).find("kv_heads 3") != std::string::npos);
    CHECK(text_of([](model_config& c) { c.head_size = 7; }).find("head_size 7") !=
          std::string::npos);
    CHECK(text_of([](model_config& c) { c.vocabulary = 1U << 30; }).find("vocabulary") !=
          std::string::npos);
    CHECK(text_of([](model_config& c) { c.rms_epsilon = 0.0F; }).find("rms_epsilon") !=
          std::string::npos);
  }

  TEST_CASE("initial weights depend on the seed only and have the usual spread") {
    const model_config config;
    const parameter_layout layout(config);
    const float_buffer a = initial_weights(config, 1);
    const float_buffer b = initial_weights(config, 1);
    const float_buffer c = initial_weights(config, 2);
    CHECK(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    CHECK(std::memcmp(a.data(), c.data(), a.size() * sizeof(float)) != 0);
    for (const parameter& item : layout.parameters) {
      CAPTURE(item.name);
      double squares = 0.0;
      for (std::size_t i = 0; i < item.count; ++i)
        squares += std::pow(double{a.data()[item.offset + i]}, 2);
      const double spread = std::sqrt(squares / static_cast<double>(item.count));
      const bool residual =
          item.name.ends_with("o_proj.weight") || item.name.ends_with("down_proj.weight");
      const double wanted = item.shape.size() == 1 ? 1.0 : residual ? 0.02 / std::sqrt(8.0) : 0.02;
      CHECK(spread == doctest::Approx(wanted).epsilon(0.03));
    }
  }

  TEST_CASE("a float buffer is zeroed, aligned, and moves") {
    float_buffer buffer(37);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    CHECK(buffer.values()[36] == 0.0F);
    buffer.data()[3] = 5.0F;
    const float_buffer moved(std::move(buffer));
    CHECK(moved.size() == 37);
    CHECK(moved.data()[3] == 5.0F);
    CHECK(float_buffer().data() == nullptr);
  }
}
