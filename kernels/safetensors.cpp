#include "kernels/safetensors.hpp"

#include "kernels/json_value.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

namespace weir::kernels {

static_assert(std::endian::native == std::endian::little, "tensors are copied as they lie");

namespace {

constexpr std::size_t length_bytes = 8;
/// Of memory and files, for disks that are written without a copy.
constexpr std::size_t data_alignment = 512;

std::size_t element_bytes(tensor_type type) {
  return type == tensor_type::f32 ? 4 : 2;
}

std::optional<tensor_type> type_named(std::string_view name) {
  if (name == "F32") return tensor_type::f32;
  if (name == "F16") return tensor_type::f16;
  if (name == "BF16") return tensor_type::bf16;
  return std::nullopt;
}

float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  if (exponent > 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float small = static_cast<float>(fraction) * 0x1.0p-24F;
  return sign != 0 ? -small : small;
}

tl::unexpected<error> corrupt(std::string text) {
  return failure(errc::corrupt, std::move(text));
}

tl::unexpected<error> corrupt_tensor(const std::string& name, const std::string& why) {
  return corrupt("tensor " + json_quoted(name) + ": " + why);
}

/// Bytes of a tensor, or nothing when they do not fit into 64 bits.
std::optional<std::uint64_t> bytes_of(const std::vector<std::uint64_t>& shape, tensor_type type) {
  std::uint64_t bytes = element_bytes(type);
  for (const std::uint64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

/// The unsigned integers of an array, or nothing when it is anything else.
std::optional<std::vector<std::uint64_t>> unsigned_array(const json_value* value) {
  if (value == nullptr || value->type() != json_value::kind::array) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (const json_value& item : value->items()) {
    const auto number = item.as_unsigned();
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

result<tensor_view> read_tensor(const std::string& name, const json_value& entry,
                                std::span<const std::byte> data) {
  const json_value* type_value = entry.find("dtype");
  const std::string* type_name = type_value != nullptr ? type_value->as_string() : nullptr;
  if (type_name == nullptr) return corrupt_tensor(name, "it has no dtype");
  const auto type = type_named(*type_name);
  if (!type)
    return failure(errc::unsupported, "tensor " + json_quoted(name) + ": its dtype is " +
                                          json_quoted(*type_name) +
                                          ", only F32, F16 and BF16 are read");
  auto shape = unsigned_array(entry.find("shape"));
  if (!shape) return corrupt_tensor(name, "its shape is no array of sizes");
  const auto offsets = unsigned_array(entry.find("data_offsets"));
  if (!offsets || offsets->size() != 2)
    return corrupt_tensor(name, "its data_offsets are no pair of offsets");
  const std::uint64_t begin = (*offsets)[0];
  const std::uint64_t end = (*offsets)[1];
  if (begin > end || end > data.size())
    return corrupt_tensor(name, "its data lies at " + std::to_string(begin) + " to " +
                                    std::to_string(end) + " of " + std::to_string(data.size()) +
                                    " bytes");
  const auto bytes = bytes_of(*shape, *type);
  if (!bytes || *bytes != end - begin)
    return corrupt_tensor(name, "its shape does not make the " + std::to_string(end - begin) +
                                    " bytes of its data");
  return tensor_view{name, *type, std::move(*shape), data.subspan(begin, end - begin)};
}

result<tensor_metadata> read_metadata(const json_value& entry) {
  tensor_metadata metadata;
  if (entry.type() != json_value::kind::object)
    return corrupt("the __metadata__ of the header is no object");
  for (std::size_t index = 0; index < entry.keys().size(); ++index) {
    const std::string* text = entry.items()[index].as_string();
    if (text == nullptr)
      return corrupt("metadata " + json_quoted(entry.keys()[index]) + " is no string");
    metadata.emplace_back(entry.keys()[index], *text);
  }
  return metadata;
}

/// Tensors must cover the data, each byte once. Sorts them by place.
result<void> check_places(std::vector<tensor_view>& tensors, std::span<const std::byte> data) {
  std::sort(tensors.begin(), tensors.end(), [](const tensor_view& left, const tensor_view& right) {
    return left.data.data() != right.data.data() ? left.data.data() < right.data.data()
                                                 : left.data.size() < right.data.size();
  });
  const std::byte* next = data.data();
  for (const tensor_view& tensor : tensors) {
    if (tensor.data.data() != next)
      return corrupt_tensor(tensor.name, tensor.data.data() < next
                                             ? "its data overlaps another tensor's"
                                             : "unused bytes lie before its data");
    next += tensor.data.size();
  }
  if (next != data.data() + data.size()) return corrupt("unused bytes lie after the last tensor");
  return {};
}

/// Items of a JSON list: what comes before each but the first.
const char* comma(bool first) {
  return first ? "" : ",";
}

std::string header_of(std::span<const tensor_source> tensors, const tensor_metadata& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, text] : metadata) {
      header.append(comma(first)).append(json_quoted(key));
      header.append(":").append(json_quoted(text));
      first = false;
    }
    header += "}";
  }
  std::size_t offset = 0;
  for (const tensor_source& tensor : tensors) {
    header.append(comma(header.size() == 1)).append(json_quoted(tensor.name));
    header += ":{\"dtype\":\"F32\",\"shape\":[";
    for (std::size_t index = 0; index < tensor.shape.size(); ++index)
      header.append(comma(index == 0)).append(std::to_string(tensor.shape[index]));
    header.append("],\"data_offsets\":[").append(std::to_string(offset)).append(",");
    offset += tensor.values.size_bytes();
    header.append(std::to_string(offset)).append("]}");
  }
  header += "}";
  while ((length_bytes + header.size()) % data_alignment != 0)
    header += ' ';
  return header;
}

struct tensor_run {
  std::size_t tensors = 0;
  std::span<const float> values;
};

/// The first tensors that lie one behind the other in memory too.
tensor_run adjacent(std::span<const tensor_source> tensors) {
  const float* const begin = tensors.front().values.data();
  tensor_run run;
  while (run.tensors < tensors.size()) {
    const std::span<const float> next = tensors[run.tensors].values;
    if (next.data() != begin + run.values.size()) break;
    run.values = {begin, run.values.size() + next.size()};
    ++run.tensors;
  }
  return run;
}

} // namespace

std::size_t tensor_view::count() const noexcept {
  return data.size() / element_bytes(type);
}

void tensor_view::copy_to(std::span<float> into) const {
  ensure(into.size() == count(), "a tensor is copied into as many floats");
  if (type == tensor_type::f32) {
    if (!data.empty()) std::memcpy(into.data(), data.data(), data.size());
    return;
  }
  for (std::size_t index = 0; index < into.size(); ++index) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, data.data() + index * sizeof bits, sizeof bits);
    into[index] = type == tensor_type::f16 ? float_of_half(bits)
                                           : std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
}

result<safetensors_content> read_safetensors(std::span<const std::byte> file) {
  if (file.size() < length_bytes)
    return corrupt("a safetensors file of " + std::to_string(file.size()) +
                   " bytes ends before its header");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), length_bytes);
  if (header_bytes > safetensors_header_bytes_max)
    return corrupt("the header claims " + std::to_string(header_bytes) + " bytes, more than " +
                   std::to_string(safetensors_header_bytes_max));
  if (header_bytes > file.size() - length_bytes)
    return corrupt("the header claims " + std::to_string(header_bytes) + " bytes of a file of " +
                   std::to_string(file.size()));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + length_bytes,
                              header_bytes);
  const auto header = parse_json(text);
  if (!header) return failure(header.error().code, "the header is " + header.error().text);
  if (header->type() != json_value::kind::object) return corrupt("the header is no JSON object");
  const auto data = file.subspan(length_bytes + header_bytes);
  safetensors_content content;
  for (std::size_t index = 0; index < header->keys().size(); ++index) {
    const std::string& name = header->keys()[index];
    const json_value& entry = header->items()[index];
    if (name == "__metadata__") {
      auto metadata = read_metadata(entry);
      if (!metadata) return failure(metadata.error());
      content.metadata = std::move(*metadata);
      continue;
    }
    auto tensor = read_tensor(name, entry, data);
    if (!tensor) return failure(tensor.error());
    content.tensors.push_back(std::move(*tensor));
  }
  if (auto places = check_places(content.tensors, data); !places) return failure(places.error());
  return content;
}

result<void> write_safetensors(std::span<const tensor_source> tensors,
                               const tensor_metadata& metadata, const byte_sink& sink) {
  for (const tensor_source& tensor : tensors) {
    const auto bytes = bytes_of(tensor.shape, tensor_type::f32);
    ensure(bytes.has_value() && *bytes == tensor.values.size_bytes(),
           "a tensor has as many values as its shape says");
    ensure(is_utf8(tensor.name), "the name of a tensor is UTF-8");
  }
  const std::string header = header_of(tensors, metadata);
  if (header.size() > safetensors_header_bytes_max)
    return failure(errc::invalid_argument, "the header of " + std::to_string(tensors.size()) +
                                               " tensors would have " +
                                               std::to_string(header.size()) + " bytes");
  const std::uint64_t header_bytes = header.size();
  std::vector<std::byte> piece(length_bytes + header.size());
  std::memcpy(piece.data(), &header_bytes, length_bytes);
  std::memcpy(piece.data() + length_bytes, header.data(), header.size());
  if (auto taken = sink(piece); !taken) return taken;
  while (!tensors.empty()) {
    const auto run = adjacent(tensors);
    if (auto taken = sink(std::as_bytes(run.values)); !taken) return taken;
    tensors = tensors.subspan(run.tensors);
  }
  return {};
}

std::size_t safetensors_size(std::span<const tensor_source> tensors,
                             const tensor_metadata& metadata) {
  std::size_t bytes = length_bytes + header_of(tensors, metadata).size();
  for (const tensor_source& tensor : tensors)
    bytes += tensor.values.size_bytes();
  return bytes;
}

} // namespace weir::kernels
