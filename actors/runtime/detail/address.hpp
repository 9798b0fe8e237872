/// Where messages go, without saying how: the seam between the runtime and the actor library below.
///
/// `caf_bridge.cpp` implements what is declared here; nothing else includes a header of CAF.
#pragma once

#include "actors/runtime/detail/parcel.hpp"

#include <string>
#include <utility>

namespace weir {
class actor;
class run_queue;
} // namespace weir

namespace weir::detail {

/// A counted reference to an actor's mailbox; empty by default. Keeps the mailbox, not the actor.
class address {
public:
  address() = default;
  /// Takes over one reference.
  explicit address(void* mailbox) noexcept : mailbox_(mailbox) {}
  address(const address& other) noexcept : mailbox_(other.mailbox_) { retain(); }
  address(address&& other) noexcept : mailbox_(std::exchange(other.mailbox_, nullptr)) {}
  address& operator=(address other) noexcept {
    std::swap(mailbox_, other.mailbox_);
    return *this;
  }
  ~address() {
    if (mailbox_ != nullptr) release();
  }

  [[nodiscard]] explicit operator bool() const noexcept { return mailbox_ != nullptr; }
  [[nodiscard]] void* mailbox() const noexcept { return mailbox_; }
  friend bool operator==(const address& a, const address& b) noexcept {
    return a.mailbox_ == b.mailbox_;
  }

private:
  void retain() noexcept;
  void release() noexcept;

  void* mailbox_ = nullptr;
};

/// Puts a parcel into a mailbox. Thread-safe; never waits. `from` is who is answered: empty for
/// foreign threads. A request to an actor that has ended is refused (errc::unavailable).
void post(const address& to, const address& from, parcel&& sent);

/// The run queue of the actor that owns the mailbox; for that actor alone.
[[nodiscard]] run_queue& queue_of(const address& where) noexcept;

/// The actor behind the mailbox; null before its start, between two lives and after its end. For
/// its own turn alone.
[[nodiscard]] actor* body_of(const address& where) noexcept;

/// Mailboxes of this process, with everything that lives in them: 0 once every graph is gone.
[[nodiscard]] std::size_t mailboxes_alive() noexcept;

/// Name of the actor that owns the mailbox, or "nobody".
[[nodiscard]] std::string name_of(const address& where);

} // namespace weir::detail
