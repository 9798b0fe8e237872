/// What the store costs in memory: the cut, put and get, one row, queries, memory after a clear.
///
/// Bounds: a cut copies two roots. A put copies each value once. A get of rows that were put
/// together copies nothing; of others each value once. A query reads the index of the tag's value,
/// not the rows. Baselines are memcpys of the same bytes between warm buffers, in the same run.
#include "benchmarks/dataplane_bench.hpp"

#include "dataplane/store.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>

namespace weir::benchmarks {

namespace {

using namespace dataplane;

const std::string partition = "rollouts";

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Rows of equal cells, field by field "f0", "f1", ..., all of them over one buffer.
std::vector<row_input> equal_rows(std::size_t rows, std::size_t fields,
                                  std::span<const std::byte> bytes) {
  const std::size_t cell = bytes.size() / rows / fields;
  std::vector<row_input> made(rows);
  for (std::size_t at = 0; at < rows; ++at)
    for (std::size_t field = 0; field < fields; ++field)
      made[at].cells.push_back({.field = "f" + std::to_string(field),
                                .type = dtype::f32,
                                .shape = {cell / 4},
                                .bytes = bytes.subspan((at * fields + field) * cell, cell)});
  return made;
}

std::vector<std::string> field_names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t field = 0; field < count; ++field)
    names.push_back("f" + std::to_string(field));
  return names;
}

// ---- The cut -----------------------------------------------------------------------------------

/// A store with this many small rows, of which one changes before every cut.
class cut_store {
public:
  explicit cut_store(std::size_t rows) {
    const std::vector<std::byte> bytes(std::size_t{1024} * 16);
    for (std::size_t left = rows; left > 0;) {
      const std::size_t some = std::min<std::size_t>(left, 1000);
      const auto put =
          plane_.put(partition, equal_rows(some, 1, std::span(bytes).first(some * 16)));
      ensure(put.has_value(), "small rows are put");
      last_ = put->back();
      left -= some;
    }
  }

  /// Median time of a cut, over some of them, each after a mutation.
  double microseconds() {
    std::vector<double> times;
    for (int cut = 0; cut < 101; ++cut) {
      const std::vector<row_patch> patch = {
          {.row = last_, .tags = {{"cut", std::int64_t{cut}}}, .cells = {}}};
      ensure(plane_.patch(partition, patch).has_value(), "a tag is set");
      std::optional<snapshot> taken;
      times.push_back(1e6 * seconds_of([&] { taken.emplace(plane_.capture()); }));
      newest_ = std::move(*taken); // Dropping the one before is not part of the cut.
    }
    return median_of(std::move(times));
  }

private:
  store plane_;
  row_id last_;
  snapshot newest_;
};

void cut_rows(std::vector<row>& rows) {
  cut_store small(1000);
  cut_store large(1'000'000);
  rows.push_back(at_most("cut at 10^6 rows, one changed since the last", "us", 50.0,
                         [&] { return large.microseconds(); }));
  rows.push_back(compare(
      {"cut at 10^6 rows / at 10^3 rows", "us", "10^3 rows", 1.5, better::lower},
      [&] { return large.microseconds(); }, [&] { return small.microseconds(); }, 21));
}

// ---- Put and get -------------------------------------------------------------------------------

/// 1024 rows x 32 fields x 1 KiB, asked for in an order in which nothing stands together.
void get_rows(std::vector<row>& rows) {
  constexpr std::size_t count = 1024;
  constexpr std::size_t fields = 32;
  const auto bytes = noise(count * fields * 1024, 1);
  store plane;
  auto ids = plane.put(partition, equal_rows(count, fields, bytes));
  ensure(ids.has_value(), "the rows are put");
  const auto names = field_names(fields);
  batch together;
  const auto read = [&](batch& into) {
    return 1e3 * seconds_of([&] {
             auto got = plane.get(partition, *ids, names, std::move(into));
             ensure(got.has_value(), "the rows are there");
             into = std::move(*got);
           });
  };
  rows.push_back(at_most("get 1024 rows x 32 fields x 1 KiB, put together (nothing is copied)",
                         "ms", 480.0 / 50, [&] { return read(together); }));
  std::shuffle(ids->begin(), ids->end(), std::mt19937_64(2));
  batch apart;
  std::vector<std::size_t> order(count);
  for (std::size_t at = 0; at < count; ++at)
    order[at] = static_cast<std::size_t>((*ids)[at].value - 1);
  std::vector<std::byte> copied(bytes.size());
  const auto bare = [&] {
    return 1e3 * seconds_of([&] {
             std::byte* to = copied.data();
             for (std::size_t field = 0; field < fields; ++field)
               for (const std::size_t at : order) {
                 std::memcpy(to, bytes.data() + (field * count + at) * 1024, 1024);
                 to += 1024;
               }
           });
  };
  rows.push_back(compare(
      {"the same rows in random order, into recycled buffers", "ms",
       "bare loop of the same memcpys", 1.5, better::lower},
      [&] { return read(apart); }, bare));
}

/// 1024 x 9 x 8192 f32, put and got again and again in one store.
void put_get_rows(std::vector<row>& rows) {
  constexpr std::size_t count = 1024;
  constexpr std::size_t fields = 9;
  const std::vector<std::byte> bytes(count * fields * 8192 * 4, std::byte{3});
  const auto inputs = equal_rows(count, fields, bytes);
  const auto names = field_names(fields);
  std::vector<std::byte> copied(bytes.size());
  std::vector<std::byte> again(bytes.size());
  store plane;
  batch read;
  const auto round = [&](bool shuffled) {
    std::optional<std::vector<row_id>> kept;
    const double seconds = seconds_of([&] {
      auto ids = plane.put(partition, inputs);
      ensure(ids.has_value(), "the rows are put");
      if (shuffled) std::shuffle(ids->begin(), ids->end(), std::mt19937_64(5));
      auto got = plane.get(partition, *ids, names, std::move(read));
      ensure(got.has_value(), "the rows are there");
      read = std::move(*got);
      kept = std::move(*ids);
      ensure(plane.clear(partition, *kept).has_value(), "the rows are cleared");
    });
    return static_cast<double>(bytes.size()) / seconds / 1e9;
  };
  const auto bare = [&] {
    const double seconds = seconds_of([&] {
      std::memcpy(copied.data(), bytes.data(), bytes.size());
      std::memcpy(again.data(), copied.data(), bytes.size());
    });
    return static_cast<double>(bytes.size()) / seconds / 1e9;
  };
  rows.push_back(compare(
      {"put + get + clear of 288 MiB, read in the order of writing", "GB/s", "two warm memcpys",
       0.8, better::higher},
      [&] { return round(false); }, bare, 7));
  rows.push_back(compare(
      {"the same, read in random order (every value copied twice)", "GB/s", "two warm memcpys", 0.8,
       better::higher},
      [&] { return round(true); }, bare, 7));
}

// ---- One row, one query ------------------------------------------------------------------------

void one_row_rows(std::vector<row>& rows) {
  const auto bytes = noise(std::size_t{8} * 1024, 3);
  const auto input = equal_rows(1, 8, bytes);
  const auto names = field_names(8);
  store plane({.segment_bytes = 64 * mebi});
  std::vector<row_id> ids;
  const auto put = [&] {
    ids.clear();
    const double seconds = seconds_of([&] {
      for (int at = 0; at < 500; ++at) {
        auto id = plane.put(partition, input);
        ensure(id.has_value(), "a row is put");
        ids.push_back(id->front());
      }
    });
    const double mine = 1e6 * seconds / 500;
    ensure(plane.clear(partition, std::span(ids).first(499)).has_value(), "rows are cleared");
    return mine;
  };
  rows.push_back(at_most("put of one row of 8 fields x 1 KiB", "us", 5.0, put));
  batch got;
  const auto get = [&] {
    const double seconds = seconds_of([&] {
      for (int at = 0; at < 500; ++at) {
        auto one = plane.get(partition, std::span(ids).last(1), names, std::move(got));
        ensure(one.has_value(), "the row is there");
        got = std::move(*one);
      }
    });
    return 1e6 * seconds / 500;
  };
  rows.push_back(at_most("get of one row of 8 fields x 1 KiB", "us", 5.0, get));
}

row_query where(std::vector<tag_range> tags) {
  row_query conditions;
  conditions.tags = std::move(tags);
  return conditions;
}

void query_rows(std::vector<row>& rows) {
  store plane;
  for (std::int64_t at = 0; at < 65'536; at += 64) {
    auto inputs = equal_rows(64, 1, std::vector<std::byte>(64 * 4));
    for (std::size_t row = 0; row < 64; ++row)
      inputs[row].tags = {{"group", (at + static_cast<std::int64_t>(row)) / 8},
                          {"split", std::string(row % 2 == 0 ? "train" : "validate")}};
    ensure(plane.put(partition, inputs).has_value(), "tagged rows are put");
  }
  std::int64_t group = 0;
  rows.push_back(at_most("query by a tag's value over 65,536 rows, 8 found", "us", 1000.0, [&] {
    group = (group + 1237) % 8192;
    std::size_t found = 0;
    const double seconds = seconds_of([&] {
      const auto ids = plane.query(partition, where({tag_equals("group", group)}));
      found = ids->size();
    });
    ensure(found == 8, "the group is found");
    return 1e6 * seconds;
  }));
  rows.push_back(at_most("the same by two tags, 32,768 rows have one of them", "us", 1000.0, [&] {
    group = (group + 1237) % 8192;
    std::size_t found = 0;
    const double seconds = seconds_of([&] {
      const auto ids = plane.query(partition, where({tag_equals("split", std::string("train")),
                                                     tag_equals("group", group)}));
      found = ids->size();
    });
    ensure(found == 4, "half of the group is found");
    return 1e6 * seconds;
  }));
}

// ---- Memory ------------------------------------------------------------------------------------

/// Segments of 4 MiB; what is held once all but one row of a batch of 64 MiB are cleared.
void clear_rows(std::vector<row>& rows) {
  constexpr std::size_t segment = 4 * mebi;
  const std::vector<std::byte> bytes(64 * mebi);
  rows.push_back(at_most("memory after clearing all but one row of a batch", "segments", 1.0, [&] {
    store plane({.segment_bytes = segment});
    const auto ids = plane.put(partition, equal_rows(256, 4, bytes));
    ensure(ids.has_value(), "the batch is put");
    ensure(plane.clear(partition, std::span(*ids).subspan(1)).has_value(), "all but one go");
    return static_cast<double>(plane.stat().segment_bytes) / static_cast<double>(segment);
  }));
}

} // namespace

std::vector<row> store_rows() {
  std::vector<row> rows;
  cut_rows(rows);
  get_rows(rows);
  put_get_rows(rows);
  one_row_rows(rows);
  query_rows(rows);
  clear_rows(rows);
  return rows;
}

} // namespace weir::benchmarks

int main(int count, char** arguments) {
  const std::string path = count > 1 ? arguments[1] : "build/benchmarks/dataplane.json";
  const std::string_view area = count > 3 ? arguments[3] : "all";
  auto rows = std::vector<weir::benchmarks::row>();
  if (area != "uring") rows = weir::benchmarks::store_rows();
  // Beside the figures, on the disk that runs are on too; a temporary directory may be in memory.
  const std::string directory = path + ".tmp";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  if (area != "uring")
    std::ranges::move(weir::benchmarks::snapshot_rows(directory), std::back_inserter(rows));
  std::ranges::move(weir::benchmarks::uring_rows(directory), std::back_inserter(rows));
  std::filesystem::remove_all(directory);
  return weir::benchmarks::publish(rows, path);
}
