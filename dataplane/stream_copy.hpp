/// Copies much memory past the caches.
///
/// A store that goes through the cache first reads the line that it then overwrites: three units of
/// traffic for two. For a copy that is larger than the cache that read is a third of the time, and
/// what it evicts is of more use. The C library does this only within one large call; ours are many
/// small ones.
#pragma once

#include <cstddef>
#include <span>

namespace weir::dataplane {

/// Copies of so many bytes together are worth it: more than caches hold.
inline constexpr std::size_t streamed_bytes_min = std::size_t{8} << 20;

/// Copies within one placement or batch of values.
class stream_copy {
public:
  /// `bytes` of all copies together: decides how they are made.
  explicit stream_copy(std::size_t bytes) : streams_(bytes >= streamed_bytes_min) {}
  stream_copy(const stream_copy&) = delete;
  stream_copy& operator=(const stream_copy&) = delete;
  /// What was copied can be handed to other threads from here on.
  ~stream_copy();

  /// @pre no overlap
  void copy(std::byte* target, std::span<const std::byte> source) const;

private:
  bool streams_;
};

} // namespace weir::dataplane
