/// `weir inspect`: what a bundle holds, as tables.
#include "dataplane/posix_disk.hpp"
#include "examples/weir/bundle_view.hpp"
#include "examples/weir/commands.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <utility>

namespace weir {

namespace {

using dataplane::dtype;

double per_cent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string names_of(const std::vector<dataplane::bundle_name>& bundles) {
  std::string text;
  for (const dataplane::bundle_name name : bundles)
    text.append(text.empty() ? "" : " ").append(to_string(name));
  return text.empty() ? "-" : text;
}

/// A field of a partition, over all segments.
struct field_total {
  std::string name;
  dtype type = dtype::u8;
  std::uint64_t values = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t content_bytes = 0; ///< In the files; dead values of linked segments too.
  std::uint64_t stored_bytes = 0;
};
using field_totals = std::map<std::pair<std::uint32_t, std::uint16_t>, field_total>;

struct segment_row {
  std::uint64_t id = 0;
  std::string cut;
  std::uint64_t file_bytes = 0;
  std::uint64_t content_bytes = 0;
  std::string sharers;
};

class inspection {
public:
  inspection(dataplane::disk& storage, const bundle_view& bundle)
      : storage_(storage), bundle_(bundle) {}

  result<std::string> text() {
    count_values();
    auto seen = for_each_segment(storage_, bundle_,
                                 [this](const segment_view& segment) { count_segment(segment); });
    if (!seen) return failure(std::move(seen.error()));
    add_head();
    add_files();
    add_partitions();
    add_fields();
    add_segments();
    if (bundle_.of_a_run) add_groups();
    return std::move(text_);
  }

private:
  [[nodiscard]] const dataplane::contents& rows() const { return bundle_.parts.rows.state(); }

  void count_values() {
    rows().partitions.for_each([this](std::uint64_t number, const auto& partition) {
      const dataplane::partition_schema& schema = *partition.schema;
      for (std::uint16_t field = 0; field < schema.fields.size(); ++field) {
        field_total& total = fields_[{static_cast<std::uint32_t>(number), field}];
        total.name = schema.name + "." + schema.fields[field].name;
        total.type = schema.fields[field].type;
      }
      partition.rows.for_each([&](std::uint64_t, const dataplane::row_entry& row) {
        for (const dataplane::cell& cell : row.body->cells) {
          field_total& total = fields_[{static_cast<std::uint32_t>(number), cell.field}];
          ++total.values;
          total.live_bytes += cell.bytes;
        }
      });
    });
  }

  void count_segment(const segment_view& segment) {
    segment_row row{segment.id, short_text(segment.content.header.epoch), segment.file_bytes, 0,
                    names_of(segment.sharers)};
    for (std::size_t at = 0; at < segment.content.header.columns.size(); ++at) {
      const dataplane::segment_column& column = segment.content.header.columns[at];
      field_total& total = fields_[{column.partition, column.field}];
      total.content_bytes += column.bytes;
      total.stored_bytes += segment.content.stored_bytes[at];
      row.content_bytes += column.bytes;
    }
    segments_.push_back(std::move(row));
  }

  template <class... Args>
  void add(fmt::format_string<Args...> line, Args&&... args) {
    text_ += fmt::format(line, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void add_head() {
    const dataplane::manifest& content = bundle_.parts.bundle.content;
    add("{}: step {}, cut {}, run {}", bundle_.path, content.step, short_text(content.epoch),
        content.run_id);
    add("parent {}", content.parent ? content.parent->name : "-");
    for (const dataplane::metric_value& metric : content.metrics)
      add("{} {}", metric.name, metric.value);
    if (!bundle_.of_a_run) return;
    add("sampler {}, window {}, {} groups a step, dispatch index {}", bundle_.parts.sampler.sampler,
        bundle_.parts.sampler.window, bundle_.parts.sampler.groups_per_step,
        bundle_.parts.sampler.dispatch_index);
    add("dataset epoch {}, position {} of {}", bundle_.parts.cursor.epoch,
        bundle_.parts.cursor.position, bundle_.parts.cursor.dataset_length);
  }

  void add_files() {
    add("\n{:<44} {:>14}  {}", "file", "bytes", "shared with");
    std::uint64_t bytes = 0;
    for (const dataplane::manifest_file& file : bundle_.parts.bundle.content.files) {
      add("{:<44} {:>14}  {}", file.path, file.bytes,
          names_of(dataplane::sharers_of(storage_, bundle_.path, file.path)));
      bytes += file.bytes;
    }
    add("{:<44} {:>14}", "all", bytes);
  }

  void add_partitions() {
    add("\n{:<24} {:>10} {:>10} {:>14}  {}", "partition", "committed", "staged", "bytes",
        "consumers");
    rows().partitions.for_each([this](std::uint64_t number, const auto& partition) {
      std::uint64_t committed = 0;
      std::uint64_t staged = 0;
      partition.rows.for_each([&](std::uint64_t, const dataplane::row_entry& row) {
        ++(row.state == dataplane::row_state::committed ? committed : staged);
      });
      std::uint64_t bytes = 0;
      for (const auto& [key, field] : fields_)
        if (key.first == number) bytes += field.live_bytes;
      std::string consumers;
      for (const std::string& name : partition.schema->consumers)
        consumers.append(consumers.empty() ? "" : " ").append(name);
      add("{:<24} {:>10} {:>10} {:>14}  {}", partition.schema->name, committed, staged, bytes,
          consumers.empty() ? "-" : consumers);
    });
  }

  void add_fields() {
    add("\n{:<32} {:>6} {:>10} {:>14} {:>14} {:>7}", "field", "dtype", "values", "live bytes",
        "bytes on disk", "ratio");
    for (const auto& [key, field] : fields_)
      add("{:<32} {:>6} {:>10} {:>14} {:>14} {:>7.2f}", field.name, to_string(field.type),
          field.values, field.live_bytes, field.stored_bytes,
          field.stored_bytes == 0
              ? 1.0
              : static_cast<double>(field.content_bytes) / static_cast<double>(field.stored_bytes));
  }

  void add_segments() {
    add("\n{:<18} {:>10} {:>14} {:>14} {:>14} {:>7}  {}", "segment", "cut", "bytes on disk",
        "content bytes", "live bytes", "live", "shared with");
    for (const segment_row& row : segments_) {
      const dataplane::segment_entry* entry = rows().segments.find(row.id);
      const std::uint64_t live = entry == nullptr ? 0 : entry->live_bytes;
      add("{:<18x} {:>10} {:>14} {:>14} {:>14} {:>6.1f}%  {}", row.id, row.cut, row.file_bytes,
          row.content_bytes, live, per_cent(live, row.content_bytes), row.sharers);
    }
  }

  void add_groups() {
    std::map<group_state, std::uint64_t> counts;
    for (const group_standing& group : groups_of(bundle_.parts))
      ++counts[group.state];
    const restored_states& parts = bundle_.parts;
    add("\n{:<24} {:>10}", "groups", "count");
    add("{:<24} {:>10}", "handed out", parts.cursor.handed_out.count);
    for (const group_state state :
         {group_state::in_reserve, group_state::reserved, group_state::admitted, group_state::ready,
          group_state::claimed})
      add("{:<24} {:>10}", to_string(state), counts[state]);
    add("{:<24} {:>10}", "consumed", parts.replay.consumed.count);
    for (std::size_t reason = 0; reason < drop_reasons; ++reason) {
      const auto why = static_cast<drop_reason>(reason);
      const std::uint64_t dropped =
          parts.replay.dropped.of(why).count + parts.sampler.dropped.of(why).count;
      if (dropped > 0) add("{:<24} {:>10}", fmt::format("dropped, {}", to_string(why)), dropped);
    }
  }

  dataplane::disk& storage_;
  const bundle_view& bundle_;
  field_totals fields_;
  std::vector<segment_row> segments_;
  std::string text_;
};

} // namespace

exit_code inspect(const std::string& bundle) {
  const auto storage = dataplane::make_posix_disk();
  const auto path = bundle_path(*storage, bundle);
  if (!path) {
    std::fprintf(stderr, "%s\n", to_string(path.error()).c_str());
    return exit_code::failed;
  }
  const auto view = view_bundle(*storage, *path);
  const auto text = view ? inspection(*storage, *view).text() : failure(view.error());
  if (!text) {
    std::fprintf(stderr, "%s\n`weir verify %s` says all that is wrong\n",
                 to_string(text.error()).c_str(), bundle.c_str());
    return exit_code::failed;
  }
  std::fputs(text->c_str(), stdout);
  const auto problems = check_files(*storage, *path, view->parts.bundle.content);
  for (const dataplane::bundle_problem& problem : problems)
    std::fprintf(stderr, "%s\n", to_string(problem.reason).c_str());
  return problems.empty() ? exit_code::done : exit_code::failed;
}

} // namespace weir
