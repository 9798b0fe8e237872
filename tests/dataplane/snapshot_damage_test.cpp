/// Damage to a snapshot on disk: at every bit, at every length, and with checksums that were made
/// to fit again, so that what lies behind them has to hold on its own.
#include "dataplane/checksum.hpp"
#include "dataplane/index_file.hpp"
#include "dataplane/segment_file.hpp"
#include "dataplane/wire.hpp"
#include "tests/dataplane/snapshot_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace weir;
using namespace weir::dataplane;
using namespace weir::dataplane::fixture;

namespace {

/// A small snapshot as files: two partitions, several segments.
file_map small_files() {
  store plane({.segment_bytes = 600});
  fill(plane, 2, 7);
  crash_disk storage;
  return files_of(storage, write_to(storage, plane.capture()));
}

void put_checksum(std::vector<std::byte>& bytes, std::size_t at, const checksum128& sum) {
  std::vector<std::byte> encoded;
  dataplane::detail::put(encoded, sum);
  std::copy(encoded.begin(), encoded.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

template <class Number>
Number number_at(const std::vector<std::byte>& bytes, std::size_t at) {
  auto reader = dataplane::detail::wire_reader(std::span(bytes).subspan(at, sizeof(Number)));
  return reader.take<Number>();
}

struct chunk_place {
  std::size_t payload = 0;
  std::size_t bytes = 0;
};

/// Where the payloads of an intact index lie.
std::vector<chunk_place> chunks_of(const std::vector<std::byte>& index) {
  std::vector<chunk_place> chunks;
  for (std::size_t at = 56; at < index.size();) {
    chunks.push_back({at + 48, static_cast<std::size_t>(number_at<std::uint64_t>(index, at + 8))});
    at += 48 + chunks.back().bytes;
  }
  return chunks;
}

/// Makes the checksums around a chunk's payload fit what it says now.
void seal_chunk(std::vector<std::byte>& index, const chunk_place& chunk) {
  const std::span<const std::byte> all(index);
  put_checksum(index, chunk.payload - 32, checksum_of(all.subspan(chunk.payload, chunk.bytes)));
  put_checksum(index, chunk.payload - 16, checksum_of(all.subspan(chunk.payload - 48, 32)));
}

/// Refused, or harmless: what was read holds together.
void check_sound(const result<snapshot>& read) {
  if (read) {
    read->state().check_invariants();
    store plane;
    plane.restore(*read);
    plane.check_invariants();
  } else {
    CHECK((read.error().code == errc::corrupt || read.error().code == errc::unsupported ||
           read.error().code == errc::not_found));
  }
}

} // namespace

TEST_SUITE("dataplane/snapshot_damage") {
  TEST_CASE("every flipped bit is refused, with the file's name") {
    store plane({.segment_bytes = 600});
    fill(plane, 2, 6);
    crash_disk storage;
    const auto sections = write_to(storage, plane.capture());
    REQUIRE(sections.size() >= 3);
    for (const finished_section& section : sections)
      for (std::size_t byte = 0; byte < section.file.bytes; ++byte)
        for (unsigned bit = 0; bit < 8; ++bit) {
          storage.damage(join(bundle_directory, section.file.path), byte, bit);
          const auto read = read_snapshot(storage, bundle_directory, epoch);
          storage.damage(join(bundle_directory, section.file.path), byte, bit);
          if (!read.has_value() && read.error().code == errc::corrupt &&
              read.error().text.find(section.file.path) != std::string::npos)
            continue;
          CAPTURE(section.file.path);
          CAPTURE(byte);
          FAIL_CHECK("a flipped bit was not seen: " << (read ? std::string("accepted")
                                                             : to_string(read.error())));
        }
    CHECK(read_snapshot(storage, bundle_directory, epoch).has_value());
  }

  TEST_CASE("every prefix, every extension and every missing file is refused") {
    store plane({.segment_bytes = 600});
    fill(plane, 2, 6);
    crash_disk storage;
    const auto files = files_of(storage, write_to(storage, plane.capture()));
    CHECK(read_files(files).has_value());
    for (const auto& [path, bytes] : files) {
      auto changed = files;
      std::vector<std::byte>& cut = changed.at(path);
      cut.push_back(std::byte{0});
      CHECK_FALSE(read_files(changed).has_value());
      cut.pop_back();
      while (!cut.empty()) {
        cut.pop_back();
        const auto read = read_files(changed);
        if (!read.has_value() && read.error().code == errc::corrupt) continue;
        CAPTURE(path);
        CAPTURE(cut.size());
        FAIL_CHECK("a truncated file was accepted");
      }
      changed.erase(path);
      CHECK(read_files(changed).error().code == errc::not_found);
    }
  }

  TEST_CASE("two segments that changed places are refused") {
    store plane({.segment_bytes = 600});
    fill(plane, 2, 6);
    crash_disk storage;
    auto files = files_of(storage, write_to(storage, plane.capture()));
    std::swap(files.at(segment_path(1)), files.at(segment_path(2)));
    CHECK(read_files(files).error().code == errc::corrupt);
  }

  TEST_CASE("an index with fitting checksums and any wrong byte is refused or holds together") {
    auto files = small_files();
    std::vector<std::byte>& index = files.at(index_path());
    std::size_t refused = 0;
    std::size_t tried = 0;
    for (const chunk_place& chunk : chunks_of(index))
      for (std::size_t at = chunk.payload; at < chunk.payload + chunk.bytes; ++at)
        for (const std::byte change : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
          index[at] ^= change;
          seal_chunk(index, chunk);
          const auto read = read_files(files);
          check_sound(read);
          refused += read ? 0 : 1;
          ++tried;
          index[at] ^= change;
          seal_chunk(index, chunk);
        }
    CHECK(read_files(files).has_value());
    // The rest changes a tag, a key, a name, an id or padding: nothing that contradicts anything.
    CHECK(refused > tried / 3);
  }

  TEST_CASE("a segment header with a fitting checksum and any wrong byte is refused") {
    auto files = small_files();
    std::vector<std::byte>& segment = files.at(segment_path(1));
    const std::size_t payload = number_at<std::uint32_t>(segment, 4);
    const auto seal = [&] {
      put_checksum(segment, 8 + payload - 16,
                   checksum_of(std::span<const std::byte>(segment).subspan(8, payload - 16)));
    };
    for (std::size_t at = 8; at < 8 + payload - 16; ++at)
      for (const std::byte change : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
        segment[at] ^= change;
        seal();
        const auto read = read_files(files);
        CAPTURE(at);
        CHECK_FALSE(read.has_value());
        check_sound(read);
        segment[at] ^= change;
        seal();
      }
    CHECK(read_files(files).has_value());
  }

  TEST_CASE("a newer format of index or segment is named as such") {
    auto files = small_files();
    std::vector<std::byte>& index = files.at(index_path());
    index[8] = std::byte{index_format_version + 1};
    put_checksum(index, 40, checksum_of(std::span<const std::byte>(index).first(40)));
    CHECK(read_files(files).error().code == errc::unsupported);
    CHECK(read_files(files).error().text ==
          "data_plane/index.fb: index format 3; this program reads up to 2");
    files = small_files();
    std::vector<std::byte>& segment = files.at(segment_path(2));
    const std::size_t payload = number_at<std::uint32_t>(segment, 4);
    segment[16] = std::byte{segment_format_version + 1};
    put_checksum(segment, 8 + payload - 16,
                 checksum_of(std::span<const std::byte>(segment).subspan(8, payload - 16)));
    CHECK(read_files(files).error().code == errc::unsupported);
  }

  TEST_CASE("a fault at any call of the disk is the error of the write") {
    store plane({.segment_bytes = 600});
    fill(plane, 2, 7);
    const snapshot state = plane.capture();
    std::uint64_t failed = 0;
    for (std::uint64_t call = 0;; ++call) {
      crash_disk storage;
      REQUIRE(storage.make_directory(bundle_directory).has_value());
      storage.plan({.first_call = storage.calls() + call, .code = errc::no_space});
      const auto written = write_snapshot(storage, bundle_directory, epoch, state);
      if (written) break;
      CHECK(written.error().code == errc::no_space);
      ++failed;
    }
    CHECK(failed > 20);
  }
}
