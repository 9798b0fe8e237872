/// The dataloader actor: hands out batches of prompts, and owns the cursor.
///
/// An owner. Reading ahead (`PeekBatch`) and finding again (`FetchPrompts`) change nothing; the
/// cursor moves by `ReserveBatch`, under a lease. It waits for nobody.
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/dataloader/dataloader_state.hpp"
#include "actors/protocols.hpp"

namespace weir {

class dataloader : public participant {
public:
  using protocol = dataloader_protocol;
  static constexpr bool is_owner = true;

  /// `state` is fresh, or loaded from a bundle.
  dataloader(context ctx, dataloader_state state, event_sink& events);

private:
  task<result<message<BatchPeeked>>> on_peek(message<PeekBatch> request);
  task<result<message<BatchReserved>>> on_reserve(lease_ref lease, message<ReserveBatch> request);
  task<result<message<PromptsFetched>>> on_fetch(message<FetchPrompts> request);
  captured_section capture() override;
  void check_invariants() const override { state_.check_invariants(); }

  dataloader_state state_;
};

} // namespace weir
