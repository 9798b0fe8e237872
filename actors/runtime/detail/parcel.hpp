/// What travels between mailboxes: a frame, or a few words of the runtime to itself.
#pragma once

#include "messages/frame.hpp"

#include <cstdint>
#include <memory>

namespace weir::detail {

/// Something to be done on an actor's turn; posted by a foreign thread.
class posted_call {
public:
  virtual ~posted_call() = default;
  virtual void run() noexcept = 0;
};

enum class parcel_kind : std::uint8_t {
  frame,         ///< A request, a reply or a note.
  refusal,       ///< A reply that is an error.
  call,          ///< `posted_call::run`.
  wake,          ///< A deadline may be due.
  stop,          ///< End in an orderly way; with a reason: as a failure of the actor.
  stream_open,   ///< Producer -> consumer: here I am, give me credit.
  stream_credit, ///< Consumer -> producer.
  stream_item,   ///< Producer -> consumer.
  stream_end,    ///< Producer -> consumer: no more items; with a reason: because of an error.
  stream_cancel, ///< Consumer -> producer: nobody listens.
};

/// The one message type that CAF knows. Copying shares everything.
struct parcel {
  parcel_kind kind = parcel_kind::frame;
  weir::frame value = {};
  std::shared_ptr<const error> reason = {}; ///< Of a refusal, a stop, or the end of a stream.
  std::shared_ptr<posted_call> posted = {}; ///< Of a call.
  std::uint64_t stream = 0;                 ///< The consumer's number for a stream.
  std::uint64_t source = 0;                 ///< The producer's number for it.
  std::uint64_t credit = 0;
};

} // namespace weir::detail
