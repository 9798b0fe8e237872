// The config.json of a model. The keys and their defaults are those of transformers' configuration
// classes; a key that would change the arithmetic and is not known here is refused, not ignored.
#include "kernels/json_value.hpp"
#include "kernels/model_files.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace weir::kernels {

namespace {

/// Reads keys of one object; remembers the first error.
class key_reader {
public:
  explicit key_reader(const json_value& object) : object_(object) {}

  [[nodiscard]] const std::optional<error>& failed() const { return failed_; }

  void fail(errc code, const std::string& text) {
    if (!failed_) failed_ = error{code, "config.json: " + text};
  }

  /// The member, or null when it is absent or null: transformers makes no difference.
  const json_value* find(std::string_view key) const {
    const json_value* value = object_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  std::uint32_t size(const std::string& key, std::optional<std::uint32_t> absent = {}) {
    const json_value* value = find(key);
    if (value == nullptr) {
      if (!absent) fail(errc::invalid_argument, key + " is missing");
      return absent.value_or(0);
    }
    const auto number = value->as_unsigned();
    if (!number || *number == 0 || *number > std::numeric_limits<std::uint32_t>::max())
      fail(errc::invalid_argument, key + " must be a positive integer");
    return static_cast<std::uint32_t>(number.value_or(0));
  }

  bool flag(const std::string& key, bool absent) {
    const json_value* value = find(key);
    const auto read = value == nullptr ? std::optional<bool>(absent) : value->as_boolean();
    if (!read) fail(errc::invalid_argument, key + " must be true or false");
    return read.value_or(absent);
  }

  std::string word(const std::string& key, const char* absent) {
    const json_value* value = find(key);
    if (value == nullptr) return absent;
    if (value->as_string() == nullptr) fail(errc::invalid_argument, key + " must be a string");
    return value->as_string() != nullptr ? *value->as_string() : absent;
  }

  float positive(const std::string& key, const json_value* value, float absent) {
    if (value == nullptr) return absent;
    const auto number = value->as_double();
    const bool good = number && *number > 0.0 && *number <= 1e30;
    if (!good) fail(errc::invalid_argument, key + " must be a positive number");
    return good ? static_cast<float>(*number) : absent;
  }

private:
  const json_value& object_;
  std::optional<error> failed_;
};

/// rope_theta at the top, or in rope_parameters since transformers 5; no scaling but "default".
float read_rope(key_reader& reader) {
  const json_value* theta = reader.find("rope_theta");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json_value* block = reader.find(key);
    if (block == nullptr) continue;
    for (const char* type_key : {"rope_type", "type"}) {
      const json_value* type = block->find(type_key);
      const std::string* name = type != nullptr ? type->as_string() : nullptr;
      if (type != nullptr && (name == nullptr || *name != "default"))
        reader.fail(errc::unsupported, std::string(key) + "." + type_key +
                                           (name != nullptr ? " is \"" + *name + "\"" : " is odd") +
                                           ": only \"default\" is supported");
    }
    const json_value* inner = block->find("rope_theta");
    theta = inner != nullptr && !inner->is_null() ? inner : theta;
  }
  return reader.positive("rope_theta", theta, 10000.0F);
}

/// Features of other models of the family that change what is computed.
void refuse_features(key_reader& reader, const std::string& family) {
  const auto refuse = [&](bool present, const char* what) {
    if (present) reader.fail(errc::unsupported, std::string(what) + " is not supported");
  };
  refuse(reader.word("hidden_act", "silu") != "silu", "a hidden_act other than silu");
  refuse(family != "qwen2" && reader.flag("attention_bias", false),
         "attention_bias of this model_type");
  refuse(reader.flag("mlp_bias", false), "mlp_bias");
  refuse(reader.flag("use_sliding_window", false), "use_sliding_window");
  refuse(reader.find("quantization_config") != nullptr, "quantization_config");
}

std::string number_text(float value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

} // namespace

result<model_config> parse_config(std::string_view text) {
  const auto json = parse_json(text);
  if (!json) return failure(json.error().code, "config.json: " + json.error().text);
  if (json->type() != json_value::kind::object)
    return failure(errc::corrupt, "config.json: it is no JSON object");
  key_reader reader(*json);
  const std::string family = reader.word("model_type", "");
  if (family != "llama" && family != "qwen2" && family != "qwen3")
    return failure(errc::unsupported, "config.json: model_type is " + json_quoted(family) +
                                          ": llama, qwen2 and qwen3 are supported");
  model_config config;
  config.vocabulary = reader.size("vocab_size");
  config.hidden = reader.size("hidden_size");
  config.layers = reader.size("num_hidden_layers");
  config.heads = reader.size("num_attention_heads");
  config.ffn = reader.size("intermediate_size");
  config.context = reader.size("max_position_embeddings");
  if (reader.failed()) return failure(*reader.failed());
  config.kv_heads = reader.size("num_key_value_heads", config.heads);
  if (reader.find("head_dim") == nullptr && config.hidden % config.heads != 0)
    return failure(errc::invalid_argument,
                   "config.json: num_attention_heads does not divide hidden_size, and there is no "
                   "head_dim");
  config.head_size = reader.size("head_dim", std::max(1U, config.hidden / config.heads));
  config.rms_epsilon = reader.positive("rms_norm_eps", reader.find("rms_norm_eps"), 1e-6F);
  config.rope_theta = read_rope(reader);
  config.tied_embeddings = reader.flag("tie_word_embeddings", false);
  config.attention_bias = family == "qwen2";
  config.qk_norm = family == "qwen3";
  refuse_features(reader, family);
  if (reader.failed()) return failure(*reader.failed());
  if (const auto valid = validate(config); !valid)
    return failure(valid.error().code, "config.json: " + valid.error().text);
  return config;
}

result<std::string> config_text(const model_config& config, const config_tokens& tokens) {
  if (config.attention_bias && config.qk_norm)
    return failure(errc::unsupported,
                   "a model with attention_bias and qk_norm has no counterpart in transformers");
  const char* family = config.qk_norm ? "qwen3" : config.attention_bias ? "qwen2" : "llama";
  const char* architecture = config.qk_norm          ? "Qwen3ForCausalLM"
                             : config.attention_bias ? "Qwen2ForCausalLM"
                                                     : "LlamaForCausalLM";
  std::string text = "{\n";
  const auto add = [&](const char* key, const std::string& value) {
    text.append(text.size() > 2 ? ",\n  \"" : "  \"").append(key).append("\": ").append(value);
  };
  const auto token = [&](const char* key, std::optional<std::uint32_t> id) {
    add(key, id ? std::to_string(*id) : "null");
  };
  add("architectures", std::string("[").append(json_quoted(architecture)).append("]"));
  add("attention_bias", config.attention_bias ? "true" : "false");
  token("bos_token_id", tokens.begin);
  token("eos_token_id", tokens.end);
  add("head_dim", std::to_string(config.head_size));
  add("hidden_act", "\"silu\"");
  add("hidden_size", std::to_string(config.hidden));
  add("intermediate_size", std::to_string(config.ffn));
  add("max_position_embeddings", std::to_string(config.context));
  add("model_type", json_quoted(family));
  add("num_attention_heads", std::to_string(config.heads));
  add("num_hidden_layers", std::to_string(config.layers));
  add("num_key_value_heads", std::to_string(config.kv_heads));
  token("pad_token_id", tokens.padding);
  add("rms_norm_eps", number_text(config.rms_epsilon));
  add("rope_theta", number_text(config.rope_theta));
  add("tie_word_embeddings", config.tied_embeddings ? "true" : "false");
  add("torch_dtype", "\"float32\"");
  add("vocab_size", std::to_string(config.vocabulary));
  return text + "\n}\n";
}

} // namespace weir::kernels
