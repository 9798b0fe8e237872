/// Decodes the rows of an index, each against the schema of its partition and the segments that
/// were loaded: what comes out holds together, or is an error that does not name the row (the
/// caller does).
#pragma once

#include "dataplane/contents.hpp"
#include "dataplane/index_generated.h"
#include "dataplane/segment_file.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::dataplane {

/// One segment of the list, its columns by (partition, field).
struct known_segment {
  std::uint64_t id = 0;
  std::uint64_t live_cells = 0;
  loaded_segment loaded;
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::size_t> columns;
  /// What the rows read so far have in it.
  std::uint64_t found_bytes = 0;
  std::uint64_t found_cells = 0;
};

/// Takes items of the lists of a chunk in order; running out of them is remembered, not read past.
class row_lists_reader {
public:
  explicit row_lists_reader(const index::Rows& lists) : lists_(lists) {}

  /// The next item, or null.
  template <class List>
  [[nodiscard]] typename List::return_type take(const List* list, std::size_t& at) {
    if (list == nullptr || at >= list->size()) {
      short_ = true;
      return nullptr;
    }
    return list->Get(static_cast<flatbuffers::uoffset_t>(at++));
  }
  [[nodiscard]] const index::CellRecord* cell() { return take(lists_.cells(), cells_); }
  [[nodiscard]] const index::TagRecord* tag() { return take(lists_.tags(), tags_); }
  [[nodiscard]] const index::MarkRecord* mark() { return take(lists_.marks(), marks_); }

  [[nodiscard]] std::uint64_t extent() {
    const auto* list = lists_.extents();
    if (list == nullptr || extents_ >= list->size()) {
      short_ = true;
      return 0;
    }
    return list->Get(static_cast<flatbuffers::uoffset_t>(extents_++));
  }
  [[nodiscard]] std::string key(std::uint64_t bytes) { return text(lists_.keys(), keys_, bytes); }
  [[nodiscard]] std::string tag_text(std::uint64_t bytes) {
    return text(lists_.texts(), texts_, bytes);
  }

  [[nodiscard]] bool ran_out() const { return short_; }
  [[nodiscard]] bool used_up() const {
    const auto all = [](const auto* list, std::size_t at) {
      return at == (list == nullptr ? 0 : list->size());
    };
    return all(lists_.cells(), cells_) && all(lists_.tags(), tags_) &&
           all(lists_.marks(), marks_) && all(lists_.extents(), extents_) &&
           all(lists_.keys(), keys_) && all(lists_.texts(), texts_);
  }

private:
  std::string text(const flatbuffers::Vector<std::uint8_t>* list, std::size_t& at,
                   std::uint64_t bytes) {
    if (bytes == 0) return {};
    if (list == nullptr || bytes > list->size() - at) {
      short_ = true;
      return {};
    }
    const auto* first = reinterpret_cast<const char*>(list->data()) + at;
    at += static_cast<std::size_t>(bytes);
    return {first, static_cast<std::size_t>(bytes)};
  }

  const index::Rows& lists_;
  std::size_t cells_ = 0;
  std::size_t tags_ = 0;
  std::size_t marks_ = 0;
  std::size_t extents_ = 0;
  std::size_t keys_ = 0;
  std::size_t texts_ = 0;
  bool short_ = false;
};

/// See the head of this file. Counts what it finds in `segments`.
class row_decoder {
public:
  row_decoder(std::uint32_t partition, const partition_schema& schema,
              std::vector<known_segment>& segments)
      : partition_(partition), schema_(schema), segments_(segments) {}

  [[nodiscard]] result<row_entry> decode(const index::RowRecord& record, row_lists_reader& lists);

private:
  [[nodiscard]] result<void> decode_tags(std::uint16_t count, row_lists_reader& lists,
                                         row_body& body);
  [[nodiscard]] result<void> decode_marks(std::uint16_t count, row_lists_reader& lists,
                                          row_entry& row);
  [[nodiscard]] result<void> decode_cell(const index::CellRecord& record, row_lists_reader& lists,
                                         row_body& body);
  /// Turns the position in a column into one in memory.
  [[nodiscard]] result<void> place(const index::CellRecord& record, const field_info& field,
                                   cell& one);

  std::uint32_t partition_;
  const partition_schema& schema_;
  std::vector<known_segment>& segments_;
  std::vector<std::uint16_t> seen_;
};

} // namespace weir::dataplane
