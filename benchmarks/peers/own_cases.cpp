/// Our side of the comparison with TransferQueue: the cases of transferqueue.py over our own store,
/// one JSON line each, with the time of every turn. The script starts it and sets the columns side
/// by side.
#include "benchmarks/dataplane_bench.hpp"
#include "dataplane/posix_disk.hpp"
#include "dataplane/snapshot_file.hpp"
#include "dataplane/store.hpp"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace weir::benchmarks {

namespace {

using namespace dataplane;
namespace fs = std::filesystem;

const std::string partition = "train";
constexpr int turns = 9;

void print(const char* name, const std::vector<double>& values) {
  std::printf("{\"case\": \"%s\", \"values\": [", name);
  for (std::size_t at = 0; at < values.size(); ++at)
    std::printf("%s%.6f", at == 0 ? "" : ", ", values[at]);
  std::printf("]}\n");
}

/// Equal rows of `fields` f32 vectors.
struct shape {
  std::size_t rows = 1;
  std::size_t fields = 1;
  std::size_t values = 1;
};

std::vector<std::string> names_of(const shape& all) {
  std::vector<std::string> names;
  for (std::size_t field = 0; field < all.fields; ++field)
    names.push_back("field_" + std::to_string(field));
  return names;
}

/// `values` are those of all rows, field by field.
std::vector<row_input> inputs_of(const shape& all, std::span<const float> values) {
  const auto names = names_of(all);
  std::vector<row_input> rows(all.rows);
  for (std::size_t field = 0; field < all.fields; ++field)
    for (std::size_t row = 0; row < all.rows; ++row)
      rows[row].cells.push_back(vector_cell<float>(
          names[field], values.subspan((field * all.rows + row) * all.values, all.values)));
  return rows;
}

std::size_t count_of(const shape& all) {
  return all.rows * all.fields * all.values;
}

/// Put and get of one shape, in milliseconds; everything is cleared in between.
void put_and_get(const std::string& name, const shape& all) {
  const std::vector<float> values(count_of(all), 0.5F);
  const auto inputs = inputs_of(all, values);
  const auto names = names_of(all);
  store plane;
  std::vector<double> put_ms;
  std::vector<double> get_ms;
  batch read;
  for (int turn = -1; turn < turns; ++turn) {
    std::vector<row_id> ids;
    const double put = seconds_of([&] {
      auto made = plane.put(partition, inputs);
      ensure(made.has_value(), "the rows are put");
      ids = std::move(*made);
    });
    const double get = seconds_of([&] {
      auto got = plane.get(partition, ids, names, std::move(read));
      ensure(got.has_value(), "the rows are there");
      read = std::move(*got);
    });
    ensure(plane.clear(partition, ids).has_value(), "the rows are cleared");
    if (turn < 0) continue; // The first touches fresh memory.
    put_ms.push_back(put * 1e3);
    get_ms.push_back(get * 1e3);
  }
  print(("put_" + name).c_str(), put_ms);
  print(("get_" + name).c_str(), get_ms);
}

/// The keys of one value of a tag among 65,536 rows.
void query() {
  constexpr std::size_t count = 65'536;
  const std::vector<float> one(1, 0.5F);
  store plane;
  std::vector<row_input> rows(count);
  for (std::size_t at = 0; at < count; ++at) {
    rows[at].tags = {{"group", static_cast<std::int64_t>(at / 16)}};
    rows[at].cells.push_back(vector_cell<float>("field_0", one));
  }
  ensure(plane.put(partition, rows).has_value(), "the rows are put");
  row_query wanted;
  wanted.tags = {tag_equals("group", std::int64_t{7})};
  std::vector<double> times;
  for (int turn = 0; turn < turns; ++turn)
    times.push_back(1e3 * seconds_of([&] {
                      const auto found = plane.query(partition, wanted);
                      ensure(found.has_value() && found->size() == 16, "the group is found");
                    }));
  print("query", times);
}

/// 32 MiB saved, synced, and read back into a store.
void checkpoint(const std::string& directory) {
  const shape all{64, 8, 16'384};
  const auto bytes = noise(count_of(all) * sizeof(float), 1);
  std::vector<float> values(count_of(all));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  store plane;
  ensure(plane.put(partition, inputs_of(all, values)).has_value(), "the rows are put");
  const auto storage = make_posix_disk();
  const epoch_id epoch{1, 1, 1};
  std::vector<double> save_ms;
  std::vector<double> load_ms;
  std::vector<double> mebibytes;
  for (int turn = 0; turn < turns; ++turn) {
    fs::remove_all(directory);
    fs::create_directories(directory);
    save_ms.push_back(1e3 * seconds_of([&] {
                        ensure(
                            write_snapshot(*storage, directory, epoch, plane.capture()).has_value(),
                            "the snapshot is written");
                        ensure(storage->sync_tree(directory).has_value(), "and durable");
                      }));
    std::uintmax_t on_disk = 0;
    for (const auto& entry : fs::recursive_directory_iterator(directory))
      if (entry.is_regular_file()) on_disk += entry.file_size();
    mebibytes.push_back(static_cast<double>(on_disk) / static_cast<double>(mebi));
    load_ms.push_back(1e3 * seconds_of([&] {
                        store other;
                        auto read = read_snapshot(*storage, directory, epoch);
                        ensure(read.has_value(), "the snapshot is read");
                        other.restore(*read);
                      }));
  }
  print("save", save_ms);
  print("load", load_ms);
  print("disk_mib", mebibytes);
}

} // namespace

} // namespace weir::benchmarks

int main(int count, char** arguments) {
  using namespace weir::benchmarks;
  const std::string directory = count > 1 ? arguments[1] : "build/benchmarks/own_cases.tmp";
  put_and_get("wide", {1024, 32, 256});
  put_and_get("large", {1024, 9, 8192});
  put_and_get("one", {1, 8, 256});
  query();
  checkpoint(directory);
  std::filesystem::remove_all(directory);
  return 0;
}
