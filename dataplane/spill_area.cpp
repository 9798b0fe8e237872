#include "dataplane/spill_area.hpp"

#include <string_view>

namespace weir::dataplane {

namespace {

constexpr std::string_view file_prefix = "spill-";
/// Names that another process has made just now are passed over.
constexpr int names_tried_max = 64;

/// The mapping of one file, and the room that it takes.
struct spilled_bytes {
  spilled_bytes(std::shared_ptr<const std::byte> mapped, std::uint64_t size,
                std::shared_ptr<std::atomic<std::uint64_t>> total)
      : mapping(std::move(mapped)), bytes(size), used(std::move(total)) {
    used->fetch_add(bytes);
  }
  spilled_bytes(const spilled_bytes&) = delete;
  spilled_bytes& operator=(const spilled_bytes&) = delete;
  ~spilled_bytes() {
    mapping.reset();
    used->fetch_sub(bytes);
  }

  std::shared_ptr<const std::byte> mapping;
  std::uint64_t bytes;
  std::shared_ptr<std::atomic<std::uint64_t>> used;
};

/// Somebody else may take a name away first.
result<void> remove_name(disk& storage, const std::string& path) {
  auto removed = storage.unlink(path);
  if (!removed && removed.error().code == errc::not_found) return {};
  return removed;
}

} // namespace

result<std::shared_ptr<spill_area>> spill_area::open(disk& storage, std::string directory,
                                                     std::uint64_t bytes_max) {
  if (auto made = make_directories(storage, directory); !made)
    return failure(std::move(made.error()));
  const auto entries = storage.list(directory);
  if (!entries) return failure(entries.error());
  for (const directory_entry& entry : *entries) {
    if (entry.kind != entry_kind::file || !entry.name.starts_with(file_prefix)) continue;
    if (auto removed = remove_name(storage, join(directory, entry.name)); !removed)
      return failure(std::move(removed.error()));
  }
  return std::shared_ptr<spill_area>(new spill_area(storage, std::move(directory), bytes_max));
}

result<std::unique_ptr<file>> spill_area::make_nameless_file() {
  for (int tries = 1;; ++tries) {
    const std::string path =
        join(directory_, std::string(file_prefix) + std::to_string(next_file_++));
    auto made = storage_.create(path);
    if (!made) {
      if (made.error().code == errc::already_exists && tries < names_tried_max) continue;
      return failure(std::move(made.error()));
    }
    if (auto removed = remove_name(storage_, path); !removed)
      return failure(std::move(removed.error()));
    return made;
  }
}

result<std::shared_ptr<const segment>> spill_area::spill(const segment& source) {
  const std::uint64_t bytes = source.filled();
  ensure(bytes > 0, "a segment that is spilled has bytes");
  if (bytes > room_bytes())
    return failure(errc::exhausted, directory_ + ": a segment of " + std::to_string(bytes) +
                                        " bytes does not fit into the " +
                                        std::to_string(room_bytes()) + " that are left of " +
                                        std::to_string(bytes_max_));
  auto made = make_nameless_file();
  if (!made) return failure(std::move(made.error()));
  if (auto done = (*made)->append(source.bytes(0, bytes)); !done)
    return failure(std::move(done.error()));
  if (auto done = (*made)->sync(); !done) return failure(std::move(done.error()));
  auto mapping = (*made)->map(bytes);
  if (!mapping) return failure(std::move(mapping.error()));
  if (auto done = (*made)->close(); !done) return failure(std::move(done.error()));
  ++spilled_;
  const auto held = std::make_shared<const spilled_bytes>(std::move(*mapping), bytes, used_);
  return segment::over_file({held, held->mapping.get()}, bytes);
}

} // namespace weir::dataplane
