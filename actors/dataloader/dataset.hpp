/// A map-style dataset in JSON Lines: one object a line, with a key for the prompt and one for the
/// answer.
///
///     {"question": "What is 3+4?", "answer": "7"}
///
/// The bytes come from the caller (this is a functional core: no file system). They are validated
/// completely at `parse`, so that a run never meets a bad record in the middle of an epoch; after
/// that a record costs an offset and a hash, and its text is parsed again when it is read.
///
/// What is accepted, deliberately:
/// - a UTF-8 byte order mark at the start, CRLF, blank lines, a missing final newline;
/// - a number as the answer: its text as written (an integer without a superfluous sign);
/// - any further keys, of any type.
/// What is refused, naming file and line: malformed JSON, bytes that are not UTF-8, a line that is
/// not an object, a missing key, a value of another type, a key that is read and stands twice, an
/// empty prompt or answer, a line or a file above the limits, a dataset without any record.
#pragma once

#include "actors/content_hash.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// How records are read.
struct dataset_options {
  std::string input_key = "question";
  /// Without one, records have no answer (an environment that scores without it).
  std::optional<std::string> output_key = "answer";
  /// Given to every record; environments and metrics tell tasks apart by it.
  std::string task = "train";
};

/// One record, as text.
struct dataset_record {
  std::string prompt;
  std::string answer;
  std::string task;
  content_hash hash;

  friend bool operator==(const dataset_record&, const dataset_record&) = default;
};

/// An immutable list of validated records. Movable; readers on several threads are fine.
class dataset {
public:
  /// Reads `content`, the bytes of the file that errors call `name`.
  /// Errors: invalid_argument for a record or an option that cannot be right, exhausted above a
  /// limit, not_found for a dataset without records.
  [[nodiscard]] static result<dataset> parse(std::string name, std::string content,
                                             dataset_options options);

  [[nodiscard]] std::uint64_t size() const { return lines_.size(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Hash over all records in file order, and their number: another, a changed or a reordered
  /// dataset has another fingerprint. White space and keys that are not read do not count.
  [[nodiscard]] content_hash fingerprint() const { return fingerprint_; }

  /// The record in file order. @pre index < size().
  [[nodiscard]] dataset_record at(std::uint64_t index) const;
  /// Its hash, without reading the text. @pre index < size().
  [[nodiscard]] content_hash hash_at(std::uint64_t index) const;
  /// "problems.jsonl:17", for errors about a record. @pre index < size().
  [[nodiscard]] std::string place_of(std::uint64_t index) const;

private:
  struct line {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t number = 0;
    content_hash hash;
  };

  dataset(std::string name, std::string content, dataset_options options);
  [[nodiscard]] result<void> read_lines();
  [[nodiscard]] result<void> append(std::size_t offset, std::string_view text,
                                    std::uint32_t number);
  [[nodiscard]] std::string_view text_of(const line& entry) const;

  std::string name_;
  std::string content_;
  dataset_options options_;
  std::vector<line> lines_;
  content_hash fingerprint_;
};

} // namespace weir
