#include "dataplane/direct_file.hpp"

#include "dataplane/settling_file.hpp"
#include "dataplane/stream_copy.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::uint64_t whole_pages(std::uint64_t bytes) {
  return bytes / direct_page_bytes * direct_page_bytes;
}

bool lies_at(const std::byte* memory, std::uint64_t multiple) {
  return reinterpret_cast<std::uintptr_t>(memory) % multiple == 0;
}
bool on_page(const std::byte* memory) {
  return lies_at(memory, direct_page_bytes);
}

class direct_file final : public settling_file {
public:
  /// Without `blocks` everything goes through the cache.
  direct_file(std::unique_ptr<posix_file> under, std::shared_ptr<direct_blocks> blocks,
              std::shared_ptr<deferred_syncs> syncs)
      : settling_file(std::move(under), std::move(syncs)), blocks_(std::move(blocks)) {}
  ~direct_file() override { settle(); }

  result<void> append(std::span<const std::byte> bytes) override {
    if (!failed_ && writes_directly() && !needs_pages_ &&
        needs_no_copy(bytes, under_->position() + collected_))
      bytes = write_as_it_lies(bytes);
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

  void start_sync() override { settle(); } // The block is another file's then.
  result<void> sync() override {
    settle();
    if (!failed_) keep(under_->sync());
    return outcome();
  }

private:
  [[nodiscard]] std::uint64_t end() const override { return under_->position() + collected_; }

  /// Writes what was collected and gives the block back.
  void settle() override {
    cut();
    if (block_ && !failed_) write_collected();
    if (block_) blocks_->give_back(std::move(block_));
    collected_ = 0;
  }

  /// Whether what comes next may go past the cache: not where that was refused, nor behind a sync
  /// within a page.
  [[nodiscard]] bool writes_directly() const {
    return blocks_ && !refused_ && under_->position() % direct_page_bytes == 0;
  }

  /// All but what fills the page that was collected last; returns what would begin another one.
  std::span<const std::byte> write_as_it_lies(std::span<const std::byte> bytes) {
    const auto missing = whole_pages(collected_ + direct_page_bytes - 1) - collected_;
    if (collected_ > 0) {
      collect(bytes.first(missing));
      write_collected();
      bytes = bytes.subspan(missing);
    }
    const auto pages = bytes.first(whole_pages(bytes.size()));
    if (!failed_) write(pages);
    return bytes.subspan(pages.size());
  }

  [[nodiscard]] bool is_aligned(const std::byte* memory) const {
    return needs_pages_ ? on_page(memory) : lies_at(memory, direct_memory_bytes);
  }

  /// Whether bytes are collected: only for a direct write, and not if the system has no memory.
  bool has_block() {
    if (collected_ > 0) return true;
    if (!writes_directly()) return false;
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
    if (writes_directly() && pages.size() >= direct_bytes_min && is_aligned(pages.data())) {
      auto done = under_->append_direct(pages);
      if (done)
        bytes = bytes.subspan(pages.size());
      else if (done.error().code == errc::unsupported)
        (on_page(pages.data()) ? refused_ : needs_pages_) = true;
      else
        keep(std::move(done));
    }
    if (!bytes.empty() && !failed_) keep(under_->append(bytes));
  }

  std::shared_ptr<direct_blocks> blocks_; ///< Null: no direct writes.
  std::shared_ptr<segment> block_;        ///< Of the bytes that were appended and not written.
  std::uint64_t collected_ = 0;
  bool refused_ = false;     ///< The file system takes no direct writes after all.
  bool needs_pages_ = false; ///< Not from memory that does not lie on a page.
};

} // namespace

bool needs_no_copy(std::span<const std::byte> bytes, std::uint64_t at) {
  const auto memory = reinterpret_cast<std::uintptr_t>(bytes.data());
  return bytes.size() >= uncopied_bytes_min && (memory - at) % direct_memory_bytes == 0;
}

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

result<std::unique_ptr<file>> write_directly(result<std::unique_ptr<posix_file>> made,
                                             const std::shared_ptr<direct_blocks>& blocks,
                                             const std::shared_ptr<deferred_syncs>& syncs) {
  if (!made) return failure(std::move(made.error()));
  const bool direct = is_on_known_file_system(**made);
  return std::make_unique<direct_file>(std::move(*made), direct ? blocks : nullptr, syncs);
}

} // namespace weir::dataplane
