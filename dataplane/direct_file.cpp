#include "dataplane/direct_file.hpp"

#include "dataplane/posix_file.hpp"
#include "dataplane/stream_copy.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::uint64_t whole_pages(std::uint64_t bytes) {
  return bytes / direct_page_bytes * direct_page_bytes;
}

bool on_page(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % direct_page_bytes == 0;
}

class direct_file final : public file {
public:
  /// Without `blocks` everything goes through the cache.
  direct_file(std::unique_ptr<posix_file> under, std::shared_ptr<direct_blocks> blocks)
      : under_(std::move(under)), blocks_(std::move(blocks)) {}
  ~direct_file() override { std::ignore = settle(); } // As a closed descriptor would keep it.

  result<void> append(std::span<const std::byte> bytes) override {
    if (!failed_ && collected_ == 0 && on_page(bytes.data()) &&
        bytes.size() >= direct_blocks::block_bytes) {
      write(bytes.first(whole_pages(bytes.size()))); // No copy is needed.
      bytes = bytes.subspan(whole_pages(bytes.size()));
    }
    while (!bytes.empty() && !failed_) {
      if (!has_block()) {
        write(bytes);
        break;
      }
      const auto piece =
          bytes.first(std::min(bytes.size(), direct_blocks::block_bytes - collected_));
      collect(piece);
      bytes = bytes.subspan(piece.size());
      if (collected_ == direct_blocks::block_bytes) write_collected();
    }
    return outcome();
  }

  void start_sync() override { std::ignore = settle(); } // The block is another file's then.
  result<void> sync() override {
    if (auto done = settle(); !done) return done;
    keep(under_->sync());
    return outcome();
  }
  result<void> close() override {
    auto done = settle();
    auto closed = under_->close();
    return done ? closed : done;
  }

  result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    auto done = settle();
    return done ? under_->write_at(offset, bytes) : done;
  }
  result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> target) override {
    auto done = settle();
    return done ? under_->read_at(offset, target) : failure(std::move(done.error()));
  }
  result<std::uint64_t> size() override {
    auto done = settle();
    return done ? under_->size() : failure(std::move(done.error()));
  }
  result<std::shared_ptr<const std::byte>> map(std::uint64_t bytes) override {
    auto done = settle();
    return done ? under_->map(bytes) : failure(std::move(done.error()));
  }

private:
  [[nodiscard]] result<void> outcome() const {
    if (failed_) return failure(*failed_);
    return {};
  }
  void keep(result<void> done) {
    if (!done && !failed_) failed_ = std::move(done.error());
  }

  /// Writes what was collected and gives the block back.
  result<void> settle() {
    if (block_ && !failed_) write_collected();
    if (block_) blocks_->give_back(std::move(block_));
    collected_ = 0;
    return outcome();
  }

  /// Whether bytes are collected: not where direct writes are refused, nor behind a sync within a
  /// page, nor if the system has no memory.
  bool has_block() {
    if (collected_ > 0) return true;
    if (!blocks_ || refused_ || under_->position() % direct_page_bytes != 0) return false;
    if (!block_) block_ = blocks_->take();
    return block_ != nullptr;
  }

  /// The processor will not read these bytes again: they need no place in its caches.
  void collect(std::span<const std::byte> piece) {
    const stream_copy past_caches(streamed_bytes_min);
    past_caches.copy(block_->writable(collected_, piece.size()).data(), piece);
    collected_ += piece.size();
  }

  void write_collected() { write(block_->bytes(0, std::exchange(collected_, 0))); }

  /// Whole pages past the cache if the file stands on one, and if they are worth a request.
  void write(std::span<const std::byte> bytes) {
    const auto pages = bytes.first(whole_pages(bytes.size()));
    if (!refused_ && blocks_ && pages.size() >= direct_bytes_min && on_page(pages.data()) &&
        under_->position() % direct_page_bytes == 0) {
      auto done = under_->append_direct(pages);
      if (done)
        bytes = bytes.subspan(pages.size());
      else if (done.error().code == errc::unsupported)
        refused_ = true;
      else
        keep(std::move(done));
    }
    if (!bytes.empty() && !failed_) keep(under_->append(bytes));
  }

  std::unique_ptr<posix_file> under_;
  std::shared_ptr<direct_blocks> blocks_; ///< Null: no direct writes.
  std::shared_ptr<segment> block_;        ///< Of the bytes that were appended and not written.
  std::uint64_t collected_ = 0;
  bool refused_ = false; ///< The file system takes no direct writes after all.
  std::optional<error> failed_;
};

/// A network file system answers a direct write from afar, and one in memory has nothing to pass.
bool takes_direct_writes(const posix_file& opened) {
  struct statfs about{};
  if (::fstatfs(opened.number(), &about) < 0) return false;
  return about.f_type == EXT4_SUPER_MAGIC || about.f_type == XFS_SUPER_MAGIC;
}

} // namespace

std::shared_ptr<segment> direct_blocks::take() {
  {
    const std::lock_guard held(mutex_);
    if (!kept_.empty()) {
      auto block = std::move(kept_.back());
      kept_.pop_back();
      return block;
    }
  }
  return segment::allocate(block_bytes);
}

void direct_blocks::give_back(std::shared_ptr<segment> block) {
  const std::lock_guard held(mutex_);
  if (kept_.size() < kept_max) kept_.push_back(std::move(block));
}

result<std::unique_ptr<file>> create_direct_file(const std::string& path,
                                                 const std::shared_ptr<direct_blocks>& blocks) {
  auto made = create_posix_file(path);
  if (!made) return failure(std::move(made.error()));
  const bool direct = takes_direct_writes(**made);
  return std::make_unique<direct_file>(std::move(*made), direct ? blocks : nullptr);
}

} // namespace weir::dataplane
