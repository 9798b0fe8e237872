/// A new file whose appends are written later: what its kinds, collecting and queueing, share.
///
/// Every call that reads or asks has the pending appends written out first, so that it sees them.
/// An error stays with its file: the first failure is kept, nothing is written behind it, and every
/// later call fails with the same words; no sync returns success over a lost write.
///
/// Left to each kind: `append` and `sync`, how pending appends are written out (`settle`), and to
/// do so in its destructor, which comes before this one's. A file that is dropped then has what was
/// appended, as a closed descriptor would keep it.
#pragma once

#include "dataplane/deferred_syncs.hpp"
#include "dataplane/posix_file.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace weir::dataplane {

class settling_file : public file {
public:
  result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) final {
    settle();
    if (!failed_) keep(under_->write_at(offset, bytes));
    return outcome();
  }
  result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> target) final {
    settle();
    return failed_ ? failure(*failed_) : under_->read_at(offset, target);
  }
  result<std::uint64_t> size() final {
    settle();
    return failed_ ? failure(*failed_) : under_->size();
  }
  result<std::shared_ptr<const std::byte>> map(std::uint64_t bytes) final {
    settle();
    return failed_ ? failure(*failed_) : under_->map(bytes);
  }
  result<void> close() final {
    settle();
    keep(under_->close()); // In any case: the descriptor is given back.
    return outcome();
  }
  result<void> close_for_tree() final {
    settle();
    if (failed_) return file::close_for_tree();
    const auto taken = syncs_->take(*under_);
    if (!taken) keep(failure(taken.error()));
    return taken && *taken ? outcome() : file::close_for_tree();
  }

protected:
  settling_file(std::unique_ptr<posix_file> under, std::shared_ptr<deferred_syncs> syncs)
      : under_(std::move(under)), syncs_(std::move(syncs)) {}

  /// Writes out the pending appends and gives back what held them; failures are kept.
  virtual void settle() = 0;
  /// Bytes that were appended.
  [[nodiscard]] virtual std::uint64_t end() const = 0;
  /// Takes away what a former file has left behind the last append. Part of `settle`, and before
  /// any sync.
  void cut() {
    if (!failed_) keep(under_->cut(end()));
  }

  /// The failure that was kept, if there is one.
  [[nodiscard]] result<void> outcome() const {
    if (failed_) return failure(*failed_);
    return {};
  }
  void keep(result<void> done) {
    if (!done && !failed_) failed_ = std::move(done.error());
  }

  std::unique_ptr<posix_file> under_;
  std::optional<error> failed_; ///< The first failure.

private:
  std::shared_ptr<deferred_syncs> syncs_;
};

} // namespace weir::dataplane
