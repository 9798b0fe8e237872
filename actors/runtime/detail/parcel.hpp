/// What travels between mailboxes: a frame, or a few words of the runtime to itself.
#pragma once

#include "messages/frame.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace weir {
class actor;
} // namespace weir

namespace weir::detail {

/// Something to be done on an actor's turn; posted by a foreign thread, or by another actor.
class posted_call {
public:
  virtual ~posted_call() = default;
  /// `body` is the actor, or null between two lives of one that is restarted.
  virtual void run(actor* body) noexcept = 0;
};

enum class parcel_kind : std::uint8_t {
  frame,         ///< A request, a reply or a note.
  refusal,       ///< A reply that is an error.
  call,          ///< `posted_call::run`.
  wake,          ///< A deadline may be due.
  stop,          ///< End in an orderly way; with a reason: as a failure of the actor.
  leave,         ///< Supervisor: end this life, for a reason; a new one may follow.
  begin,         ///< Supervisor: begin a new life.
  stream_open,   ///< Producer -> consumer: here I am, give me credit.
  stream_credit, ///< Consumer -> producer.
  stream_items,  ///< Producer -> consumer: what was pushed in one turn.
  stream_end,    ///< Producer -> consumer: no more items; with a reason: because of an error.
  stream_cancel, ///< Consumer -> producer: nobody listens.
};

/// The one message type that CAF knows. Copying shares everything.
struct parcel {
  parcel_kind kind = parcel_kind::frame;
  weir::frame value = {};
  std::shared_ptr<const error> reason = {}; ///< Of a refusal, a stop, a leave, a stream's end.
  std::shared_ptr<posted_call> posted = {}; ///< Of a call.
  std::uint64_t stream = 0;                 ///< The consumer's number for a stream.
  std::uint64_t source = 0;                 ///< The producer's number for it.
  std::uint64_t credit = 0;
  std::vector<payload_ptr> items = {}; ///< Of a stream; never empty then.
};

} // namespace weir::detail
