/// An actor of one's own that takes part in the barrier on both sides: it starts mutations (an
/// origin) and holds durable state (an owner).
#pragma once

#include "actors/checkpoint/participant.hpp"
#include "actors/protocols.hpp"

#include <chrono>
#include <cstdio>

/// Takes batches of two prompts and counts their characters. Stands in for rollout and trainer.
class reader : public weir::participant {
public:
  using protocol = weir::trainer_protocol; // What the barrier asks of an origin and owner.
  static constexpr bool is_origin = true;
  static constexpr bool is_owner = true;
  reader(weir::context ctx, weir::handle<weir::dataloader_protocol> loader,
         weir::handle<weir::sampler_protocol> ledger, weir::event_sink& events)
      : participant(std::move(ctx), weir::barrier_role::both, events), loader_(std::move(loader)),
        ledger_(std::move(ledger)) {}

private:
  weir::task<void> run() override {
    while (true) {
      weir::PeekBatchT want;
      want.count = 2;
      auto request = weir::pack(want);
      auto batch = co_await loader_.ask(
          request, weir::within(std::chrono::seconds(5))); // No lease: nothing changes.
      if (!batch) co_return fail(batch.error());
      if ((*batch)->prompts() == nullptr || (*batch)->prompts()->size() < 2) break;
      auto taken = co_await take(*batch);
      if (!taken) co_return fail(taken.error());
    }
    std::printf("read %llu prompts, %zu characters\n", 2ULL * batches_, characters_);
    finish_run();
  }

  /// One transaction: a cut holds all of it or nothing.
  weir::task<weir::result<void>> take(weir::message<weir::BatchPeeked> batch) {
    weir::ReserveBatchT move;
    move.first_group = batch->first_group();
    move.count = batch->prompts()->size();
    weir::ReserveGroupsT own;
    own.admission = batches_;
    for (const auto* prompt : *batch->prompts()) {
      own.groups.push_back(std::make_unique<weir::GroupReservationT>());
      own.groups.back()->group = prompt->group();
      own.groups.back()->sample = std::make_unique<weir::SampleId>(*prompt->sample());
      own.groups.back()->content_hash = std::make_unique<weir::Hash128>(*prompt->content_hash());
      own.groups.back()->siblings = 1;
    }
    const auto move_request = weir::pack(move);
    const auto own_request = weir::pack(own);
    // [readme:transaction]
    auto lease = co_await mutations().enter(); // Waits while a barrier holds.
    auto moved = co_await loader_.ask(lease, move_request, weir::within(std::chrono::seconds(5)));
    if (!moved) co_return weir::failure(moved.error());
    auto owned = co_await ledger_.ask(lease, own_request, weir::within(std::chrono::seconds(5)));
    if (!owned) co_return weir::failure(owned.error());
    // [end]
    ++batches_;
    for (const auto* prompt : *batch->prompts())
      characters_ += prompt->text()->size();
    mutated();
    co_return weir::result<void>();
  }

  weir::captured_section capture() override {
    weir::captured_section section;
    section.sequence = events().newest();
    section.trainer_step = static_cast<std::int64_t>(batches_); // Names the bundle.
    section.write = [total = characters_](const weir::section_target& target) {
      return weir::write_one_section(target, "reader.bin", std::as_bytes(std::span(&total, 1)));
    };
    return section;
  }

  weir::handle<weir::dataloader_protocol> loader_;
  weir::handle<weir::sampler_protocol> ledger_;
  std::uint64_t batches_ = 0;
  std::size_t characters_ = 0;
};
