#include "kernels/model_files.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace weir::kernels {

namespace {

constexpr std::string_view first_suffix = ".exp_avg";
constexpr std::string_view second_suffix = ".exp_avg_sq";
constexpr const char* step_key = "step";

tl::unexpected<error> corrupt_tensor(const std::string& name, const std::string& why) {
  return failure(errc::corrupt, "tensor \"" + name + "\": " + why);
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (std::size_t index = 0; index < shape.size(); ++index)
    text.append(index > 0 ? ", " : "").append(std::to_string(shape[index]));
  return text.append("]");
}

/// Tensors that files of such models hold and that have no parameter here: a head that is tied, and
/// the rotation frequencies that old versions stored.
bool is_redundant(const model_config& config, const std::string& name) {
  return (config.tied_embeddings && name == "lm_head.weight") ||
         name.ends_with("rotary_emb.inv_freq");
}

using tensor_index = std::map<std::string, const tensor_view*, std::less<>>;

result<void> add_tensors(const safetensors_content& content, tensor_index& index) {
  for (const tensor_view& tensor : content.tensors)
    if (!index.emplace(tensor.name, &tensor).second)
      return corrupt_tensor(tensor.name, "it comes twice");
  return {};
}

/// Takes the tensor of a parameter out of the index, and checks its shape.
result<const tensor_view*> take_tensor(tensor_index& index, const parameter& wanted,
                                       std::string_view suffix) {
  const std::string name = wanted.name + std::string(suffix);
  const auto found = index.find(name);
  if (found == index.end()) return corrupt_tensor(name, "it is missing");
  const tensor_view* tensor = found->second;
  index.erase(found);
  if (tensor->shape != wanted.shape)
    return corrupt_tensor(name, "its shape is " + shape_text(tensor->shape) + ", the model's is " +
                                    shape_text(wanted.shape));
  return tensor;
}

/// Everything is checked before memory is taken: a config cannot ask for more than the files hold.
result<std::vector<const tensor_view*>>
take_all(tensor_index& index, const parameter_layout& layout, std::string_view suffix) {
  std::vector<const tensor_view*> taken;
  for (const parameter& wanted : layout.parameters) {
    const auto tensor = take_tensor(index, wanted, suffix);
    if (!tensor) return failure(tensor.error());
    taken.push_back(*tensor);
  }
  return taken;
}

float_buffer gather(const parameter_layout& layout, const std::vector<const tensor_view*>& taken) {
  float_buffer buffer(layout.total);
  for (std::size_t place = 0; place < taken.size(); ++place) {
    const parameter& wanted = layout.parameters[place];
    taken[place]->copy_to(buffer.values().subspan(wanted.offset, wanted.count));
  }
  return buffer;
}

result<void> refuse_rest(const tensor_index& index, const model_config& config) {
  for (const auto& [name, tensor] : index)
    if (!is_redundant(config, name))
      return corrupt_tensor(name, "the model that config.json describes has no such parameter");
  return {};
}

void add_sources(const parameter_layout& layout, std::span<const float> values,
                 std::string_view suffix, std::vector<tensor_source>& sources) {
  ensure(values.size() == layout.total, "a flat buffer has the size of the model's layout");
  for (const parameter& one : layout.parameters)
    sources.push_back(
        {one.name + std::string(suffix), one.shape, values.subspan(one.offset, one.count)});
}

} // namespace

result<void> write_weights(const model_config& config, std::span<const float> weights,
                           const byte_sink& sink) {
  std::vector<tensor_source> sources;
  add_sources(parameter_layout(config), weights, "", sources);
  // transformers refuses files that do not say which framework wrote them.
  return write_safetensors(sources, {{"format", "pt"}}, sink);
}

result<float_buffer> read_weights(const model_config& config,
                                  std::span<const std::span<const std::byte>> files) {
  std::vector<safetensors_content> contents;
  for (const auto file : files) {
    auto content = read_safetensors(file);
    if (!content) return failure(content.error());
    contents.push_back(std::move(*content));
  }
  tensor_index index;
  for (const safetensors_content& content : contents)
    if (auto added = add_tensors(content, index); !added) return failure(added.error());
  const parameter_layout layout(config);
  const auto taken = take_all(index, layout, "");
  if (!taken) return failure(taken.error());
  if (auto rest = refuse_rest(index, config); !rest) return failure(rest.error());
  return gather(layout, *taken);
}

result<void> write_moments(const model_config& config, const optimizer_moments& moments,
                           const byte_sink& sink) {
  std::vector<tensor_source> sources;
  const parameter_layout layout(config);
  add_sources(layout, moments.first, first_suffix, sources);
  add_sources(layout, moments.second, second_suffix, sources);
  return write_safetensors(sources, {{"format", "pt"}, {step_key, std::to_string(moments.step)}},
                           sink);
}

result<loaded_moments> read_moments(const model_config& config, std::span<const std::byte> file) {
  const auto content = read_safetensors(file);
  if (!content) return failure(content.error());
  loaded_moments loaded;
  const auto step = std::find_if(content->metadata.begin(), content->metadata.end(),
                                 [](const auto& entry) { return entry.first == step_key; });
  if (step == content->metadata.end())
    return failure(errc::corrupt, "the optimizer's file has no metadata \"step\"");
  const char* last = step->second.data() + step->second.size();
  const auto [end, code] = std::from_chars(step->second.data(), last, loaded.step);
  if (code != std::errc{} || end != last)
    return failure(errc::corrupt, "the optimizer's step is \"" + step->second + "\", no number");
  tensor_index index;
  if (auto added = add_tensors(*content, index); !added) return failure(added.error());
  const parameter_layout layout(config);
  const auto first = take_all(index, layout, first_suffix);
  if (!first) return failure(first.error());
  const auto second = take_all(index, layout, second_suffix);
  if (!second) return failure(second.error());
  if (!index.empty()) return corrupt_tensor(index.begin()->first, "the model has no such moment");
  loaded.first = gather(layout, *first);
  loaded.second = gather(layout, *second);
  return loaded;
}

} // namespace weir::kernels
