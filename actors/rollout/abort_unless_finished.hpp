/// A generator forgets a group that nobody waits for any more.
#pragma once

#include "actors/protocols.hpp"
#include "actors/runtime/handle.hpp"

#include <utility>

namespace weir {

/// Tells a generator to forget a group unless its tokens all came: also when the coroutine that
/// waits for them is destroyed.
class abort_unless_finished {
public:
  abort_unless_finished(handle<generator_protocol> generator, const AbortGroupT& note)
      : generator_(std::move(generator)), note_(note) {}
  abort_unless_finished(const abort_unless_finished&) = delete;
  abort_unless_finished& operator=(const abort_unless_finished&) = delete;
  ~abort_unless_finished() {
    if (!finished_) generator_.tell(pack(note_));
  }
  void finished() { finished_ = true; }

private:
  handle<generator_protocol> generator_;
  AbortGroupT note_;
  bool finished_ = false;
};

} // namespace weir
