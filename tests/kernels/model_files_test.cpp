#include "kernels/model_files.hpp"

#include <doctest/doctest.h>

#include <cstring>

namespace {

using namespace weir;
using namespace weir::kernels;

const model_config small{.vocabulary = 20,
                         .hidden = 12,
                         .layers = 2,
                         .heads = 3,
                         .kv_heads = 1,
                         .head_size = 4,
                         .ffn = 10,
                         .context = 16};

struct collected {
  std::vector<std::byte> bytes;
  byte_sink sink = [this](std::span<const std::byte> piece) -> result<void> {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  };
};

std::vector<std::byte> weights_file(const model_config& config, const float_buffer& weights) {
  collected file;
  REQUIRE(write_weights(config, weights.values(), file.sink).has_value());
  return file.bytes;
}

result<float_buffer> read_one(const model_config& config, std::span<const std::byte> file) {
  const std::span<const std::byte> files[] = {file};
  return read_weights(config, files);
}

bool equal(const float_buffer& left, const float_buffer& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

/// A config.json as others write it, with one text replaced.
std::string replaced(const std::string& from, const std::string& to) {
  std::string text = R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000,
    "hidden_size": 288, "intermediate_size": 768, "num_hidden_layers": 6,
    "num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "rope_scaling": null, "hidden_act": "silu",
    "attention_bias": false, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "use_cache": true, "transformers_version": "4.38.2"})";
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string why(const std::string& text) {
  const auto config = parse_config(text);
  REQUIRE_FALSE(config.has_value());
  return to_string(config.error());
}

TEST_SUITE("kernels/model_files") {
  TEST_CASE("weights of every family come back bit for bit") {
    for (const int family : {0, 1, 2, 3}) {
      model_config config = small;
      config.attention_bias = family == 1;
      config.qk_norm = family == 2;
      config.tied_embeddings = family != 3;
      const float_buffer weights = initial_weights(config, 3);
      CHECK(equal(read_one(config, weights_file(config, weights)).value(), weights));
    }
  }

  TEST_CASE("weights may lie in several files") {
    const parameter_layout layout(small);
    const float_buffer weights = initial_weights(small, 3);
    std::vector<tensor_source> halves[2];
    for (std::size_t index = 0; index < layout.parameters.size(); ++index) {
      const parameter& one = layout.parameters[index];
      halves[index % 2].push_back(
          {one.name, one.shape, weights.values().subspan(one.offset, one.count)});
    }
    collected files[2];
    REQUIRE(write_safetensors(halves[0], {}, files[0].sink).has_value());
    REQUIRE(write_safetensors(halves[1], {}, files[1].sink).has_value());
    const std::span<const std::byte> both[] = {files[0].bytes, files[1].bytes};
    CHECK(equal(read_weights(small, both).value(), weights));
    const std::span<const std::byte> twice[] = {files[0].bytes, files[0].bytes};
    CHECK(read_weights(small, twice).error().text ==
          "tensor \"model.embed_tokens.weight\": it comes twice");
    CHECK(read_one(small, files[0].bytes).error().text ==
          "tensor \"model.layers.0.input_layernorm.weight\": it is missing");
  }

  TEST_CASE("weights of another shape are refused by name") {
    const auto file = weights_file(small, initial_weights(small, 3));
    model_config other = small;
    other.ffn = 11;
    CHECK(read_one(other, file).error().text ==
          "tensor \"model.layers.0.mlp.gate_proj.weight\": its shape is [10, 12], the model's is "
          "[11, 12]");
    other = small;
    other.layers = 1;
    CHECK(read_one(other, file).error().code == errc::corrupt);
    // A config that asks for more memory than there is fails before anything is allocated.
    other = small;
    other.vocabulary = other.hidden = 1U << 20;
    CHECK(read_one(other, file).error().code == errc::corrupt);
  }

  TEST_CASE("a tied model ignores a head that its file repeats") {
    model_config untied = small;
    untied.tied_embeddings = false;
    const auto file = weights_file(untied, initial_weights(untied, 3));
    CHECK(read_one(small, file).has_value());
  }

  TEST_CASE("moments of the optimizer come back with their step") {
    const float_buffer first = initial_weights(small, 1);
    const float_buffer second = initial_weights(small, 2);
    collected file;
    REQUIRE(write_moments(small, {first.values(), second.values(), 77}, file.sink).has_value());
    const auto loaded = read_moments(small, file.bytes).value();
    CHECK(loaded.step == 77);
    CHECK(equal(loaded.first, first));
    CHECK(equal(loaded.second, second));
    CHECK(read_one(small, file.bytes).error().code == errc::corrupt);
    const auto weights = weights_file(small, first);
    CHECK(read_moments(small, weights).error().text ==
          "the optimizer's file has no metadata \"step\"");
  }

  TEST_CASE("no flipped bit of a file crashes the loader") {
    const auto file = weights_file(small, initial_weights(small, 3));
    for (std::size_t byte = 0; byte < file.size() - 8; byte += byte < 3000 ? 1 : 97) {
      auto flipped = file;
      flipped[byte] ^= static_cast<std::byte>(1U << (byte % 8));
      std::ignore = read_one(small, flipped);
      std::ignore = read_one(small, std::span(file).first(byte));
    }
  }
}

TEST_SUITE("kernels/model_files/config") {
  TEST_CASE("a config that was written is read as the same model") {
    for (const int family : {0, 1, 2}) {
      model_config config = small;
      config.attention_bias = family == 1;
      config.qk_norm = family == 2;
      config.tied_embeddings = family != 0;
      config.rope_theta = 1234.5F;
      const auto text = config_text(config, {.begin = 1, .end = 2, .padding = {}}).value();
      CHECK(parse_config(text).value() == config);
    }
    model_config both = small;
    both.attention_bias = both.qk_norm = true;
    CHECK(config_text(both, {}).error().code == errc::unsupported);
  }

  TEST_CASE("a config of somebody else's model is read") {
    const auto config = parse_config(replaced("llama", "llama")).value();
    CHECK(config.vocabulary == 32000);
    CHECK(config.head_size == 48);
    CHECK(config.rope_theta == 500000.0F);
    CHECK(config.rms_epsilon == 1e-5F);
    CHECK(config.tied_embeddings);
    CHECK_FALSE(config.attention_bias);
  }

  TEST_CASE("keys may be missing, null or in the places of other versions") {
    const std::string rope = "\"rope_theta\": 500000.0, \"rope_scaling\": null";
    CHECK(parse_config(replaced(rope, "\"x\": 1")).value().rope_theta == 10000.0F);
    CHECK(parse_config(
              replaced(rope, R"("rope_parameters": {"rope_theta": 7e4, "rope_type": "default"})"))
              .value()
              .rope_theta == 70000.0F);
    CHECK(parse_config(replaced("\"num_key_value_heads\": 6", "\"num_key_value_heads\": null"))
              .value()
              .kv_heads == 6);
    CHECK(parse_config(replaced("\"use_cache\": true", "\"head_dim\": 64")).value().head_size ==
          64);
    CHECK(parse_config(replaced("\"model_type\": \"llama\"", "\"model_type\": \"qwen2\""))
              .value()
              .attention_bias);
    CHECK(parse_config(replaced("\"model_type\": \"llama\"", "\"model_type\": \"qwen3\""))
              .value()
              .qk_norm);
  }

  TEST_CASE("what is wrong with a config is said by key") {
    CHECK(why("[]") == "corrupt: config.json: it is no JSON object");
    CHECK(why("{") == "corrupt: config.json: JSON, byte 1: a string is expected");
    CHECK(why(replaced("\"hidden_size\": 288", "\"x\": 1")) ==
          "invalid argument: config.json: hidden_size is missing");
    CHECK(why(replaced("\"num_hidden_layers\": 6", "\"num_hidden_layers\": \"6\"")) ==
          "invalid argument: config.json: num_hidden_layers must be a positive integer");
    CHECK(why(replaced("\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"")) ==
          "unsupported: config.json: model_type is \"gpt2\": llama, qwen2 and qwen3 are supported");
    CHECK(why(replaced("\"rope_scaling\": null", R"("rope_scaling": {"rope_type": "llama3"})")) ==
          "unsupported: config.json: rope_scaling.rope_type is \"llama3\": only \"default\" is "
          "supported");
    CHECK(why(replaced("\"attention_bias\": false", "\"attention_bias\": true")) ==
          "unsupported: config.json: attention_bias of this model_type is not supported");
    CHECK(why(replaced("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"")) ==
          "unsupported: config.json: a hidden_act other than silu is not supported");
    CHECK(why(replaced("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0")) ==
          "invalid argument: config.json: rms_norm_eps must be a positive number");
    CHECK(why(replaced("\"num_attention_heads\": 6", "\"num_attention_heads\": 7")) ==
          "invalid argument: config.json: num_attention_heads does not divide hidden_size, and "
          "there is no head_dim");
    CHECK(why(replaced("\"num_key_value_heads\": 6", "\"num_key_value_heads\": 4"))
              .starts_with("invalid argument: config.json: "));
  }
}

} // namespace
