#include "dataplane/append_log.hpp"

#include <array>
#include <span>

namespace weir::dataplane {

namespace {

constexpr std::size_t write_bytes = std::size_t{64} << 10;
constexpr std::size_t sync_bytes = std::size_t{8} << 20;
constexpr std::size_t pending_bytes_max = std::size_t{16} << 20;

static_assert(write_bytes < sync_bytes && sync_bytes < pending_bytes_max);

} // namespace

result<append_log> append_log::open(disk& storage, std::string path) {
  auto opened = storage.open_or_create(path);
  if (!opened) return failure(std::move(opened.error()));
  if (auto synced = storage.sync_directory(parent_of(path)); !synced)
    return failure(std::move(synced.error()));
  const auto bytes = (*opened)->size();
  if (!bytes) return failure(bytes.error());
  std::array<std::byte, 1> last{std::byte{'\n'}};
  if (*bytes > 0)
    if (const auto read = (*opened)->read_at(*bytes - 1, last); !read) return failure(read.error());
  append_log log(std::move(*opened), std::move(path), *bytes);
  if (last[0] != std::byte{'\n'}) log.pending_ += '\n';
  return log;
}

result<void> append_log::append(std::string_view line) {
  if (pending_.size() + line.size() + 1 > pending_bytes_max)
    return failure(errc::exhausted, path_ + ": " + std::to_string(pending_.size()) +
                                        " bytes wait for the disk, and no more are kept");
  pending_.append(line).append(1, '\n');
  if (pending_.size() >= sync_bytes) return sync();
  if (pending_.size() - written_ >= write_bytes) return write();
  return {};
}

result<void> append_log::write() {
  if (written_ == pending_.size()) return {};
  const auto unwritten = std::as_bytes(std::span(pending_).subspan(written_));
  auto done = opened_->write_at(durable_bytes_ + written_, unwritten);
  if (done) written_ = pending_.size();
  return done;
}

result<void> append_log::sync() {
  auto done = write();
  if (!done) return done;
  done = opened_->sync();
  if (!done) {
    // The system may have dropped the bytes and forgotten that it did: they are written again.
    written_ = 0;
    return done;
  }
  durable_bytes_ += pending_.size();
  pending_.clear();
  written_ = 0;
  return {};
}

} // namespace weir::dataplane
