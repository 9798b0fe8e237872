// The ledger as a section of a bundle: what it must bring back, and what it must refuse.
#include "actors/sampler/sampler_state.hpp"
#include "messages/schemas.hpp"
#include "tests/actors/cores.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace weir;
using namespace weir::testing;

namespace {

constexpr epoch_id some_epoch{.incarnation = 3, .life = 1, .number = 7};

failure_limits tolerant() {
  failure_limits limits;
  limits.max_skipped_prompts = 9;
  limits.max_consecutive_dropped_prompts = 9;
  limits.min_step_batch_fraction = 0;
  return limits;
}

/// Two batches admitted, one reserved, one group dropped, one retried.
sampler_state busy_state(event_log& log) {
  sampler_state state(policy_of("in_order", 1), 3, tolerant());
  std::ignore = admit_batch(state, 0, 3, log);
  std::ignore = admit_batch(state, 3, 3, log);
  REQUIRE(state.reserve(2, reservations(6, 3), log.stream, 1).has_value());
  REQUIRE(state.release(group_id(0), 0)->has_value());
  REQUIRE(state.drop(ids({4}), drop_reason::infra_failure, log.stream, 1).has_value());
  REQUIRE(state.record_failure(group_id(1), failure_kind::data, log.stream, 1).has_value());
  return state;
}

/// The section of `busy_state`, changed by hand.
std::vector<std::byte> edited(const std::function<void(RolloutRecoveryT&)>& edit) {
  event_log log;
  const auto bytes = encode(busy_state(log).capture(), some_epoch);
  RolloutRecoveryT object;
  flatbuffers::GetRoot<RolloutRecovery>(bytes.data())->UnPackTo(&object);
  edit(object);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(RolloutRecovery::Pack(builder, &object));
  const auto packed = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {packed.begin(), packed.end()};
}

error refusal(const std::function<void(RolloutRecoveryT&)>& edit) {
  const auto decoded = decode_sampler(edited(edit));
  REQUIRE_FALSE(decoded.has_value());
  return decoded.error();
}

bool mentions(const error& failure, const std::string& words) {
  return failure.text.find(words) != std::string::npos;
}

} // namespace

TEST_SUITE("actors/sampler_restore") {
  TEST_CASE("a section brings every record, stamp, shortfall and total back") {
    event_log log;
    const sampler_state state = busy_state(log);
    const auto decoded = decode_sampler(encode(state.capture(), some_epoch));
    REQUIRE(decoded.has_value());
    CHECK(decoded->epoch == some_epoch);
    const sampler_image& image = decoded->image;
    CHECK(in_dispatch_order(image.ledger) == state.unfinished());
    CHECK(image.sampler == "in_order");
    CHECK(image.window == 1);
    CHECK(image.groups_per_step == 3);
    CHECK(image.stamps);
    CHECK(image.dispatch_index == 1);
    CHECK(image.next_admission == 3);
    CHECK(*image.shortfalls.find(1) == 1);
    CHECK(image.dropped == state.capture().dropped);
    CHECK(image.consecutive_dropped == 1);
    CHECK(image.reserved == state.capture().reserved);
    CHECK(image.admitted == state.capture().admitted);
    CHECK(encode(image, some_epoch) == encode(state.capture(), some_epoch));
  }

  TEST_CASE("records of siblings survive in the section and are dropped by group recovery") {
    event_log log;
    sampler_image image = busy_state(log).capture();
    ledger_record record = *image.find(group_id(1));
    record.sibling_records = {{.sibling = 1,
                               .sealed = true,
                               .row = row_id(5),
                               .continuations = {{.kind = "tokens", .bytes = {1, 2, 3}}}}};
    image.put(record);
    const auto decoded = decode_sampler(encode(image, some_epoch));
    REQUIRE(decoded.has_value());
    CHECK(*decoded->image.find(group_id(1)) == record);
    sampler_state restored(policy_of("in_order", 1), 3, tolerant());
    REQUIRE(restored.load(decoded->image).has_value());
    CHECK(restored.capture().find(group_id(1))->sibling_records.empty());
  }

  TEST_CASE("a restored dispatch index is exact: the next admission is d + 1") {
    event_log log;
    const sampler_image image = busy_state(log).capture();
    sampler_state restored(policy_of("in_order", 1), 3, tolerant());
    const auto outcome = restored.load(image);
    REQUIRE(outcome.has_value());
    CHECK(outcome->admitted == 4);
    CHECK(outcome->reserved == 3);
    restored.check_invariants();
    CHECK(restored.target(1) == 2);
    CHECK_FALSE(*restored.may_admit());
    CHECK(restored.version_live(weight_version(1)));
    const auto next = restored.admit(2, log.stream, 1);
    REQUIRE(next.has_value());
    CHECK(next->admitted);
    CHECK(next->dispatch_index == 2);
    CHECK(next->target_step == 2);
    CHECK(next->groups == ids({6, 7, 8}));
  }

  TEST_CASE("unfinished groups come in dispatch order, reserved ones last") {
    event_log log;
    const sampler_state state = busy_state(log);
    std::vector<group_id> order;
    for (const ledger_record& record : state.unfinished())
      order.push_back(record.group);
    CHECK(order == ids({1, 2, 3, 5, 6, 7, 8}));
  }

  TEST_CASE("a ledger is loaded whole, and only into an empty sampler of the same shape") {
    event_log log;
    const sampler_image image = busy_state(log).capture();
    sampler_state used = busy_state(log);
    CHECK(used.load(image).error().code == errc::conflict);
    sampler_state other_n(policy_of("in_order", 1), 4, tolerant());
    CHECK(other_n.load(image).error().text ==
          "grpo.num_prompts_per_step is 4, but the bundle was made with 3");
    sampler_state other_window(policy_of("in_order", 2), 3, tolerant());
    CHECK(other_window.load(image).error().code == errc::invalid_argument);
    sampler_state other_policy(policy_of("ready_first", 1), 3, tolerant());
    CHECK(other_policy.load(image).error().code == errc::invalid_argument);
    for (sampler_state* state : {&other_n, &other_window, &other_policy}) {
      CHECK(state->unfinished_groups() == 0);
      state->check_invariants();
    }
  }

  TEST_CASE("a group that dies with its process is a data failure after three incarnations") {
    event_log log;
    sampler_state state(policy_of("in_order", 1), 3, tolerant());
    std::ignore = admit_batch(state, 0, 3, log);
    for (std::uint32_t life = 2; life <= 7; ++life) {
      CAPTURE(life);
      sampler_state next(policy_of("in_order", 1), 3, tolerant());
      const auto decoded = decode_sampler(encode(state.capture(), some_epoch));
      const auto loaded = next.load(decoded->image);
      REQUIRE(loaded.has_value());
      CHECK(loaded->suspected == ((life == 4 || life == 7) ? 3 : 0));
      const ledger_record& record = *next.capture().find(group_id(0));
      CHECK(record.content_attempt == 0);
      const auto reason = spent(record, next.limits());
      CHECK(reason.has_value() == (life == 7));
      if (reason) CHECK(*reason == drop_reason::poisoned);
      next.check_invariants();
      state = std::move(next);
    }
  }

  TEST_CASE("attempts that were used up at the cut stay used up") {
    failure_limits limits;
    ledger_record record{.phase = group_phase::admitted, .dispatches = 2};
    CHECK_FALSE(spent(record, limits).has_value());
    record.infra_attempts = 5;
    CHECK(*spent(record, limits) == drop_reason::infra_failure);
    record.infra_attempts = 4;
    record.data_attempts = 2;
    CHECK(*spent(record, limits) == drop_reason::data_failure);
    record.phase = group_phase::reserved;
    CHECK_FALSE(spent(record, limits).has_value());
  }

  TEST_CASE("sections that contradict themselves are refused with the reason") {
    CHECK(mentions(refusal([](auto& o) { o.ledger[1]->phase = GroupPhase::unknown; }),
                   "rollout_recovery.fb: group 2 has the unknown phase 0"));
    CHECK(mentions(refusal([](auto& o) { o.ledger[1]->phase = static_cast<GroupPhase>(9); }),
                   "unknown phase 9"));
    CHECK(mentions(refusal([](auto& o) { o.ledger[1]->group = o.ledger[0]->group; }),
                   "group 1 stands in the ledger twice"));
    CHECK(mentions(refusal([](auto& o) { o.dispatch_index = 0; }), "older than its work"));
    CHECK(mentions(refusal([](auto& o) { o.dispatch_index = -2; }), "dispatch index is -2"));
    CHECK(mentions(refusal([](auto& o) { o.ledger[0]->target_step = 1; }),
                   "are of admission 0, but disagree on phase or stamp"));
    CHECK(mentions(refusal([](auto& o) { o.ledger[0]->window = 7; }), "disagree"));
    CHECK(mentions(refusal([](auto& o) { o.next_admission = 2; }), "never given"));
    CHECK(mentions(refusal([](auto& o) { o.ledger[4]->target_step = 2; }),
                   "is reserved and has a stamp"));
    CHECK(mentions(refusal([](auto& o) { o.stamps = false; }), "does not give"));
    CHECK(mentions(refusal([](auto& o) { o.ledger[0]->siblings = 0; }), "has 0 siblings"));
    CHECK(mentions(refusal([](auto& o) { o.ledger[0]->sample.reset(); }), "no sample id"));
    CHECK(mentions(refusal([](auto& o) { o.ledger[0]->content_hash.reset(); }), "content hash"));
    CHECK(mentions(refusal([](auto& o) { o.groups_per_step = 0; }), "a step has 0 groups"));
    CHECK(mentions(refusal([](auto& o) { o.shortfalls[0]->groups = 4; }), "step 1"));
    CHECK(mentions(refusal([](auto& o) { o.shortfalls[0]->groups = 2; }),
                   "step 1 has more than 3 groups"));
    CHECK(mentions(refusal([](auto& o) { o.dropped[0]->reason = static_cast<DropReason>(77); }),
                   "unknown reason 77"));
    CHECK(mentions(refusal([](auto& o) { o.epoch_id.reset(); }), "epoch is missing"));
    CHECK(mentions(refusal([](auto& o) { o.format_version = 0; }), "format version is missing"));
  }

  TEST_CASE("a newer section is refused as such") {
    const error newer = refusal([](auto& o) { o.format_version = 3; });
    CHECK(newer.code == errc::unsupported);
    CHECK(newer.text == "rollout_recovery.fb: format 3 is newer than 2; use a newer program");
  }

  TEST_CASE("no prefix of a section loses anything unnoticed, and no flipped bit is a crash") {
    event_log log;
    const auto bytes = encode(busy_state(log).capture(), some_epoch);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      CAPTURE(length);
      // The last bytes of a FlatBuffer may be padding; without them nothing is missing.
      const auto decoded = decode_sampler(std::span(bytes).first(length));
      if (decoded) CHECK(encode(decoded->image, decoded->epoch) == bytes);
    }
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      const auto decoded = decode_sampler(flipped);
      // The MANIFEST finds the flip; here it must only never yield an image that breaks a rule.
      if (decoded) CHECK(check_image(decoded->image).has_value());
    }
  }
}
