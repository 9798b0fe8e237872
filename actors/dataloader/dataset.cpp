#include "actors/dataloader/dataset.hpp"

#include "actors/dataloader/record_reader.hpp"
#include "messages/limits.hpp"

#include <xxhash.h>

#include <limits>
#include <utility>

namespace weir {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::string_view blank = " \t\r\v\f";

content_hash hash_of(const XXH128_hash_t& digest) {
  return {.low = digest.low64, .high = digest.high64};
}

/// Appends a number so that its bytes are the same on every machine.
void append_number(std::string& bytes, std::uint64_t number) {
  for (unsigned shift = 0; shift < 64; shift += 8)
    bytes += static_cast<char>((number >> shift) & 0xffU);
}

/// Lengths go in as well: ("ab", "c") and ("a", "bc") are different records.
content_hash hash_record(const dataset_record& record) {
  std::string bytes;
  for (const std::string* part : {&record.prompt, &record.answer, &record.task}) {
    append_number(bytes, part->size());
    bytes += *part;
  }
  return hash_of(XXH3_128bits(bytes.data(), bytes.size()));
}

} // namespace

dataset::dataset(std::string name, std::string content, dataset_options options)
    : name_(std::move(name)), content_(std::move(content)), options_(std::move(options)) {}

result<dataset> dataset::parse(std::string name, std::string content, dataset_options options) {
  if (options.input_key.empty() || (options.output_key && options.output_key->empty()))
    return failure(errc::invalid_argument,
                   name + ": input_key and output_key name a key of each record; give both a name");
  if (options.output_key == options.input_key)
    return failure(errc::invalid_argument,
                   name + ": input_key and output_key are both \"" + options.input_key +
                       "\": the prompt would contain its answer; name two different keys");
  dataset made(std::move(name), std::move(content), std::move(options));
  if (auto read = made.read_lines(); !read) return failure(std::move(read.error()));
  return made;
}

result<void> dataset::read_lines() {
  std::size_t offset = content_.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  std::uint32_t number = 0;
  while (offset < content_.size()) {
    const std::size_t newline = content_.find('\n', offset);
    const std::size_t end = newline == std::string::npos ? content_.size() : newline;
    const std::string_view text = std::string_view(content_).substr(offset, end - offset);
    ++number;
    if (text.find_first_not_of(blank) != std::string_view::npos)
      if (auto added = append(offset, text, number); !added) return added;
    if (lines_.size() > limits::records_max || number == std::numeric_limits<std::uint32_t>::max())
      return failure(errc::exhausted, name_ + ": more than " + std::to_string(limits::records_max) +
                                          " records; split the dataset");
    offset = end + 1;
  }
  if (lines_.empty())
    return failure(errc::not_found,
                   name_ + ": the dataset is empty; expected one JSON object a line, such as {\"" +
                       options_.input_key + "\": ...}");
  std::string digests;
  for (const line& entry : lines_) {
    append_number(digests, entry.hash.low);
    append_number(digests, entry.hash.high);
  }
  append_number(digests, lines_.size());
  fingerprint_ = hash_of(XXH3_128bits(digests.data(), digests.size()));
  return {};
}

result<void> dataset::append(std::size_t offset, std::string_view text, std::uint32_t number) {
  const std::string place = name_ + ":" + std::to_string(number) + ": ";
  if (text.size() > limits::record_bytes_max)
    return failure(errc::exhausted, place + "the line has " + std::to_string(text.size()) +
                                        " bytes, the limit is " +
                                        std::to_string(limits::record_bytes_max));
  auto record = detail::read_record(text, options_);
  if (!record) return failure(errc::invalid_argument, place + record.error().text);
  const auto bytes = static_cast<std::uint32_t>(text.size());
  lines_.push_back(
      {.offset = offset, .bytes = bytes, .number = number, .hash = hash_record(*record)});
  return {};
}

std::string_view dataset::text_of(const line& entry) const {
  return std::string_view(content_).substr(entry.offset, entry.bytes);
}

dataset_record dataset::at(std::uint64_t index) const {
  ensure(index < size(), "a record is read by an index of its dataset");
  const line& entry = lines_[index];
  auto record = detail::read_record(text_of(entry), options_);
  ensure(record.has_value(), "a record that was validated reads again");
  record->hash = entry.hash;
  return std::move(*record);
}

content_hash dataset::hash_at(std::uint64_t index) const {
  ensure(index < size(), "a hash is read by an index of its dataset");
  return lines_[index].hash;
}

std::string dataset::place_of(std::uint64_t index) const {
  ensure(index < size(), "a place is asked by an index of its dataset");
  return name_ + ":" + std::to_string(lines_[index].number);
}

} // namespace weir
