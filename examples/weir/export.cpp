/// `weir export`: the rows of a bundle in formats that other programs read.
///
///   PARTITION.safetensors   per field: a tensor [rows, shape...] where all values have one shape;
///                           otherwise FIELD with all values one behind the other, FIELD.offsets
///                           with where each begins and ends (in elements), and FIELD.rows with the
///                           row of each
///   PARTITION.jsonl         per row: id, key, state, tags, consumers, shapes; text fields too
///   groups.jsonl            per group: id, state, sample, target step
///
/// Tensors stand in the order of the row ids. The policy is in these formats already.
#include "dataplane/posix_disk.hpp"
#include "examples/weir/bundle_view.hpp"
#include "examples/weir/commands.hpp"
#include "kernels/json_value.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

namespace weir {

namespace {

using dataplane::dtype;
using kernels::json_quoted;

constexpr std::size_t header_alignment = 64;

std::string_view safetensors_type(dtype type) {
  switch (type) {
  case dtype::f32:
    return "F32";
  case dtype::f16:
    return "F16";
  case dtype::bf16:
    return "BF16";
  case dtype::i32:
    return "I32";
  case dtype::i64:
    return "I64";
  case dtype::u8:
  case dtype::bytes:
  case dtype::utf8:
    return "U8";
  case dtype::boolean:
    return "BOOL";
  }
  return "U8";
}

/// One value of a field, in the memory of the bundle that was read.
struct value {
  std::uint64_t row = 0;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// A tensor on its way into a file: its data are pieces, borrowed or owned.
struct tensor {
  std::string name;
  dtype type = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::vector<std::span<const std::byte>> pieces;
  std::vector<std::int64_t> numbers = {}; ///< The data, where they are not borrowed.

  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = numbers.size() * sizeof(std::int64_t);
    for (const auto piece : pieces)
      sum += piece.size();
    return sum;
  }
};

tensor numbers_tensor(std::string name, std::vector<std::int64_t> numbers) {
  return {std::move(name), dtype::i64, {numbers.size()}, {}, std::move(numbers)};
}

std::string list_of(std::span<const std::uint64_t> numbers) {
  std::string text = "[";
  for (const std::uint64_t number : numbers)
    text.append(text.size() > 1 ? "," : "").append(std::to_string(number));
  return text + "]";
}

class text_file {
public:
  static result<text_file> create(dataplane::disk& storage, const std::string& path) {
    auto made = storage.create(path);
    if (!made) return failure(std::move(made.error()));
    return text_file(std::move(*made));
  }
  result<void> add(std::span<const std::byte> bytes) { return file_->append(bytes); }
  result<void> add(const std::string& line) { return add(std::as_bytes(std::span(line))); }
  result<void> finish() {
    if (auto synced = file_->sync(); !synced) return synced;
    return file_->close();
  }

private:
  explicit text_file(std::unique_ptr<dataplane::file> file) : file_(std::move(file)) {}
  std::unique_ptr<dataplane::file> file_;
};

/// The header, padded so that the data begins at a multiple of 64 bytes, as the format allows.
std::string safetensors_header(std::span<const tensor> tensors, const std::string& source) {
  std::string json = "{\"__metadata__\":{\"source\":" + json_quoted(source) + "}";
  std::uint64_t at = 0;
  for (const tensor& one : tensors) {
    const std::uint64_t end = at + one.bytes();
    json += "," + json_quoted(one.name) + ":{\"dtype\":\"" +
            std::string(safetensors_type(one.type)) + "\",\"shape\":" + list_of(one.shape) +
            ",\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  json += "}";
  while ((json.size() + sizeof(std::uint64_t)) % header_alignment != 0)
    json += ' ';
  return json;
}

result<void> write_tensors(dataplane::disk& storage, const std::string& path,
                           std::span<const tensor> tensors, const std::string& source) {
  auto file = text_file::create(storage, path);
  if (!file) return failure(std::move(file.error()));
  const std::string header = safetensors_header(tensors, source);
  const std::uint64_t bytes = header.size();
  if (auto put = file->add(std::as_bytes(std::span(&bytes, 1))); !put) return put;
  if (auto put = file->add(header); !put) return put;
  for (const tensor& one : tensors) {
    for (const auto piece : one.pieces)
      if (auto put = file->add(piece); !put) return put;
    if (auto put = file->add(std::as_bytes(std::span(one.numbers))); !put) return put;
  }
  return file->finish();
}

/// The tensors of one field: a dense one, or values with their offsets and rows.
std::vector<tensor> tensors_of(const std::string& name, dtype type, std::vector<value> values,
                               std::uint64_t rows) {
  std::vector<tensor> made(1);
  tensor& all = made.front();
  all.name = name;
  all.type = type;
  for (const value& one : values)
    all.pieces.push_back(one.bytes);
  const bool one_shape =
      values.size() == rows && std::ranges::all_of(values, [&values](const value& one) {
        return one.shape == values.front().shape;
      });
  if (one_shape) {
    all.shape = {rows};
    if (!values.empty())
      all.shape.insert(all.shape.end(), values.front().shape.begin(), values.front().shape.end());
    return made;
  }
  const std::uint64_t element = element_bytes(type);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> owners;
  for (const value& one : values) {
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(one.bytes.size() / element));
    owners.push_back(static_cast<std::int64_t>(one.row));
  }
  all.shape = {static_cast<std::uint64_t>(offsets.back())};
  made.push_back(numbers_tensor(name + ".offsets", std::move(offsets)));
  made.push_back(numbers_tensor(name + ".rows", std::move(owners)));
  return made;
}

std::string json_of(const dataplane::tag_value& given) {
  if (const auto* text = std::get_if<std::string>(&given)) return json_quoted(*text);
  if (const auto* number = std::get_if<std::int64_t>(&given)) return std::to_string(*number);
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.17g", std::get<double>(given));
  const std::string text = digits.data();
  const bool finite = text.find_first_not_of("0123456789+-.e") == std::string::npos;
  return finite ? text : json_quoted(text);
}

/// `texts`: the values of text fields, by name.
std::string json_line(const dataplane::row_summary& row,
                      const std::vector<std::pair<std::string, std::string_view>>& texts) {
  std::string line = "{\"row\":" + std::to_string(row.id.value);
  if (!row.key.empty()) line += ",\"key\":" + json_quoted(row.key);
  line += row.state == dataplane::row_state::committed ? ",\"state\":\"committed\""
                                                       : ",\"state\":\"staged\"";
  const char* separator = ",\"tags\":{";
  for (const dataplane::tag& one : row.tags)
    line += std::exchange(separator, ",") + json_quoted(one.name) + ":" + json_of(one.value);
  if (!row.tags.empty()) line += "}";
  separator = ",\"shapes\":{";
  for (const dataplane::field_summary& field : row.fields)
    line += std::exchange(separator, ",") + json_quoted(field.name) + ":" + list_of(field.shape);
  if (!row.fields.empty()) line += "}";
  separator = ",\"texts\":{";
  for (const auto& [name, text] : texts)
    line += std::exchange(separator, ",") + json_quoted(name) + ":" + json_quoted(text);
  if (!texts.empty()) line += "}";
  separator = ",\"consumers\":{";
  for (const auto& [name, state] : row.consumers)
    line += std::exchange(separator, ",") + json_quoted(name) +
            (state == dataplane::consumer_state::claimed ? ":\"claimed\"" : ":\"consumed\"");
  if (!row.consumers.empty()) line += "}";
  return line + "}\n";
}

/// A name of a partition as that of a file: what is no letter, digit, '-' or '_' becomes '_'.
std::string file_name_of(const std::string& partition) {
  std::string name = partition;
  for (char& letter : name) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '-' || letter == '_';
    if (!plain) letter = '_';
  }
  return name;
}

class exporter {
public:
  exporter(dataplane::disk& storage, const bundle_view& bundle, std::string directory)
      : storage_(storage), bundle_(bundle), all_(bundle.parts.rows.state()),
        directory_(std::move(directory)) {}

  /// Paths of the files that were written.
  result<std::vector<std::string>> write() {
    if (auto made = dataplane::make_directories(storage_, directory_); !made)
      return failure(std::move(made.error()));
    result<void> done;
    all_.partitions.for_each([&](std::uint64_t, const dataplane::partition_state& partition) {
      done = write_partition(partition);
      return done.has_value();
    });
    if (done && bundle_.of_a_run) done = write_groups();
    if (!done) return failure(std::move(done.error()));
    return std::move(written_);
  }

private:
  result<void> write_partition(const dataplane::partition_state& partition) {
    const dataplane::partition_schema& schema = *partition.schema;
    const std::string name = dataplane::join(directory_, file_name_of(schema.name));
    std::vector<tensor> tensors;
    for (std::uint16_t field = 0; field < schema.fields.size(); ++field)
      std::ranges::move(tensors_of(schema.fields[field].name, schema.fields[field].type,
                                   values_of(partition, field), partition.rows.size()),
                        std::back_inserter(tensors));
    auto written = write_tensors(storage_, name + ".safetensors", tensors, bundle_.path);
    if (!written) return written;
    written_.push_back(name + ".safetensors");
    return write_lines(name + ".jsonl", [&](const auto& add) {
      result<void> done;
      partition.rows.for_each([&](std::uint64_t id, const dataplane::row_entry& row) {
        done = add(json_line(summarize(schema, id, row), texts_of(schema, row)));
        return done.has_value();
      });
      return done;
    });
  }

  [[nodiscard]] std::vector<value> values_of(const dataplane::partition_state& partition,
                                             std::uint16_t field) const {
    std::vector<value> values;
    partition.rows.for_each([&](std::uint64_t id, const dataplane::row_entry& row) {
      const dataplane::cell* one = row.body->find(field);
      if (one == nullptr) return;
      const auto shape = row.body->shape_of(*one);
      values.push_back({id, {shape.begin(), shape.end()}, bytes_of(all_, *one)});
    });
    return values;
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string_view>>
  texts_of(const dataplane::partition_schema& schema, const dataplane::row_entry& row) const {
    std::vector<std::pair<std::string, std::string_view>> texts;
    for (const dataplane::cell& one : row.body->cells) {
      const dataplane::field_info& field = schema.fields[one.field];
      if (field.type != dtype::utf8) continue;
      const auto bytes = bytes_of(all_, one);
      texts.emplace_back(
          field.name, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    return texts;
  }

  result<void> write_groups() {
    return write_lines(dataplane::join(directory_, "groups.jsonl"), [this](const auto& add) {
      for (const group_standing& group : groups_of(bundle_.parts)) {
        std::string line = "{\"group\":" + std::to_string(group.group.value) + ",\"state\":\"" +
                           std::string(to_string(group.state)) +
                           "\",\"epoch\":" + std::to_string(group.sample.epoch) +
                           ",\"position\":" + std::to_string(group.sample.position);
        if (group.target_step >= 0) line += ",\"target_step\":" + std::to_string(group.target_step);
        if (auto put = add(line + "}\n"); !put) return put;
      }
      return result<void>();
    });
  }

  template <class Lines>
  result<void> write_lines(const std::string& path, const Lines& lines) {
    auto file = text_file::create(storage_, path);
    if (!file) return failure(std::move(file.error()));
    const auto add = [&file](const std::string& line) { return file->add(line); };
    if (auto put = lines(add); !put) return put;
    if (auto finished = file->finish(); !finished) return finished;
    written_.push_back(path);
    return {};
  }

  dataplane::disk& storage_;
  const bundle_view& bundle_;
  const dataplane::contents& all_;
  std::string directory_;
  std::vector<std::string> written_;
};

} // namespace

exit_code export_bundle(const std::string& bundle, const std::string& directory) {
  const auto storage = dataplane::make_posix_disk();
  const auto found = bundle_path(*storage, bundle);
  const auto view = found ? view_bundle(*storage, *found) : failure(found.error());
  auto written = view ? exporter(*storage, *view, directory).write() : failure(view.error());
  if (!written) {
    const bool taken = written.error().code == errc::already_exists;
    std::fprintf(stderr, "%s%s\n", to_string(written.error()).c_str(),
                 taken ? "; export into a new directory" : "");
    return exit_code::failed;
  }
  for (const std::string& path : *written)
    std::printf("%s\n", path.c_str());
  return exit_code::done;
}

} // namespace weir
