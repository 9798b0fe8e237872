#include "actors/dataloader/record_reader.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace weir::detail {

namespace {

using nlohmann::json;

/// What a wanted key held.
struct slot {
  std::string_view key;
  bool number_allowed = false;
  std::optional<std::string> value = std::nullopt;
};

/// Receives the events of one object and keeps two values of its first level. Reading by events
/// builds no tree, sees keys that stand twice, and gives a real number's text as it was written.
class record_events {
public:
  explicit record_events(const dataset_options& options) : prompt_{.key = options.input_key} {
    if (options.output_key) answer_ = slot{.key = *options.output_key, .number_allowed = true};
  }

  bool null() { return scalar("null"); }
  bool boolean(bool) { return scalar("a boolean"); }
  bool number_integer(json::number_integer_t number) { return numeral(std::to_string(number)); }
  bool number_unsigned(json::number_unsigned_t number) { return numeral(std::to_string(number)); }
  bool number_float(json::number_float_t, const std::string& text) { return numeral(text); }
  bool string(std::string& text) {
    if (wanted_ == nullptr) return scalar("a string");
    wanted_->value = std::move(text);
    wanted_ = nullptr;
    return true;
  }
  bool binary(json::binary_t&) { return scalar("binary data"); }
  bool start_object(std::size_t) { return open("an object", true); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open("an array", false); }
  bool end_array() { return close(); }
  bool key(std::string& name);
  bool parse_error(std::size_t position, const std::string&, const json::exception& failure);

  [[nodiscard]] result<dataset_record> finish(bool complete, const dataset_options& options);

private:
  bool refuse(std::string text) {
    refusal_ = std::move(text);
    return false;
  }
  bool numeral(const std::string& text);
  bool scalar(std::string_view type);
  bool open(std::string_view type, bool object);
  bool close() {
    --depth_;
    return true;
  }
  [[nodiscard]] std::string missing(const slot& entry) const;

  slot prompt_;
  slot answer_;
  slot* wanted_ = nullptr;
  std::size_t depth_ = 0;
  std::string keys_seen_;
  std::string refusal_;
};

std::string in_quotes(std::string_view name) {
  std::string text = "\"";
  text += name;
  text += '"';
  return text;
}

bool record_events::key(std::string& name) {
  if (depth_ != 1) return true;
  constexpr std::size_t listed_bytes_max = 120;
  if (keys_seen_.size() < listed_bytes_max)
    keys_seen_ += (keys_seen_.empty() ? "" : ", ") + in_quotes(name);
  for (slot* entry : {&prompt_, &answer_}) {
    if (entry->key.empty() || entry->key != name) continue;
    if (entry->value)
      return refuse("the key " + in_quotes(name) + " stands twice; keep one of them");
    wanted_ = entry;
  }
  return true;
}

bool record_events::numeral(const std::string& text) {
  if (wanted_ == nullptr || !wanted_->number_allowed) return scalar("a number");
  wanted_->value = text;
  wanted_ = nullptr;
  return true;
}

bool record_events::scalar(std::string_view type) {
  if (depth_ == 0)
    return refuse("the line is " + std::string(type) + "; expected a JSON object a line");
  if (wanted_ == nullptr) return true;
  return refuse("the value of " + in_quotes(wanted_->key) + " is " + std::string(type) +
                "; expected a string" + (wanted_->number_allowed ? " or a number" : ""));
}

bool record_events::open(std::string_view type, bool object) {
  if (depth_ == 0 && object) {
    ++depth_;
    return true;
  }
  if (depth_ == 0 || wanted_ != nullptr) return scalar(type);
  ++depth_;
  return true;
}

bool record_events::parse_error(std::size_t position, const std::string&,
                                const json::exception& failure) {
  constexpr std::size_t reason_bytes_max = 160;
  std::string reason = failure.what();
  if (const auto start = reason.find(": "); start != std::string::npos) reason.erase(0, start + 2);
  if (reason.size() > reason_bytes_max) reason = reason.substr(0, reason_bytes_max) + "...";
  return refuse("malformed JSON at byte " + std::to_string(position) + ": " + reason);
}

std::string record_events::missing(const slot& entry) const {
  return "the record has no key " + in_quotes(entry.key) + " (it has " +
         (keys_seen_.empty() ? "none" : keys_seen_) +
         "); add it, or set input_key and output_key of the dataset";
}

result<dataset_record> record_events::finish(bool complete, const dataset_options& options) {
  if (!complete) {
    ensure(!refusal_.empty(), "a line that cannot be read has a reason");
    return failure(errc::invalid_argument, std::move(refusal_));
  }
  for (slot* entry : {&prompt_, &answer_}) {
    if (entry->key.empty()) continue;
    if (!entry->value) return failure(errc::invalid_argument, missing(*entry));
    if (entry->value->empty())
      return failure(errc::invalid_argument, "the value of " + in_quotes(entry->key) +
                                                 " is empty; fill it or drop the line");
  }
  return dataset_record{.prompt = std::move(*prompt_.value),
                        .answer = std::move(answer_.value).value_or(""),
                        .task = options.task,
                        .hash = {}};
}

} // namespace

result<dataset_record> read_record(std::string_view text, const dataset_options& options) {
  record_events events(options);
  const bool complete = json::sax_parse(text.begin(), text.end(), &events);
  return events.finish(complete, options);
}

} // namespace weir::detail
