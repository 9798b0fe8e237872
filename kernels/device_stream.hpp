/// An in-order queue of work for a device, with a thread of its own.
///
/// This is how slow work leaves an actor: it submits a piece, and is told in its mailbox when the
/// piece is done, because `on_done` runs on the stream's thread and does nothing but post there.
/// The CPU is the first implementation; a CUDA stream is the second: there `work` enqueues on
/// `native()`, and `on_done` runs when the device has done what was enqueued.
///
/// Lifecycle: owned by who submits; the destructor lets everything that was accepted run, then
/// joins the thread. Work must therefore end by itself, and must not destroy the stream.
#pragma once

#include "kernels/device.hpp"
#include "messages/error.hpp"

#include <cstddef>
#include <functional>
#include <memory>

namespace weir::kernels {

struct device_stream_options {
  std::size_t queue_limit = 16; ///< Most pieces that wait or run.
  int niceness = 0;             ///< Added to the thread's on Linux; 10 lets actors go first.
};

class device_stream {
public:
  /// Makes a stream on a device. Fails with `invalid_argument` on an option out of range, with
  /// `unavailable` when the device cannot be used.
  [[nodiscard]] static result<std::unique_ptr<device_stream>>
  create(const device& where, const device_stream_options& options);

  device_stream(const device_stream&) = delete;
  device_stream& operator=(const device_stream&) = delete;
  virtual ~device_stream() = default;

  /// Runs `work` after everything that was submitted before it, then `on_done`; both on the
  /// stream's thread, both destroyed there too. May be called from any thread but the stream's.
  /// Fails with `exhausted` when the queue is full, or with the error of a device that failed an
  /// earlier piece (whose `on_done` ran all the same): nothing of the two runs then.
  [[nodiscard]] virtual result<void> submit(std::function<void()> work,
                                            std::function<void()> on_done) = 0;

  /// Pieces that wait or run.
  [[nodiscard]] virtual std::size_t pending() const = 0;

  [[nodiscard]] virtual device where() const noexcept = 0;

  /// The `cudaStream_t` to enqueue on; null on the CPU.
  [[nodiscard]] virtual void* native() const noexcept = 0;

protected:
  device_stream() = default;
};

} // namespace weir::kernels
