/// The schemas as the build sees them: which messages change durable state, and who takes part in
/// which conversation.
#include "messages/catalogue_generated.hpp"
#include "messages/protocol.hpp"
#include "messages/traits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

namespace weir {

namespace {

using shop_protocol =
    protocol<call<ReadTarget, TargetRead>, call<AdmitBatch, BatchAdmitted>, note<AbortGroup>>;
using shop_owner = joined<shop_protocol, owner_protocol>;

static_assert(request_is_in_protocol<shop_protocol, ReadTarget>);
static_assert(request_is_in_protocol<shop_protocol, AdmitBatch>);
static_assert(!request_is_in_protocol<shop_protocol, AbortGroup>, "a note cannot be asked");
static_assert(!request_is_in_protocol<shop_protocol, TargetRead>, "a reply is no request");
static_assert(!request_is_in_protocol<shop_protocol, Cut>);
static_assert(note_is_in_protocol<shop_protocol, AbortGroup>);
static_assert(!note_is_in_protocol<shop_protocol, ReadTarget>, "a call cannot be told");
static_assert(std::is_same_v<shop_protocol::reply<ReadTarget>, TargetRead>);
static_assert(request_is_in_protocol<shop_owner, Cut> &&
              note_is_in_protocol<shop_owner, AbortEpoch>);
static_assert(request_is_in_protocol<shop_owner, ReadTarget>);

static_assert(mutating_message<CommitGroup> && !plain_message<CommitGroup>);
static_assert(plain_message<AbortGroup> && !mutating_message<AbortGroup>);
static_assert(!declared_message<int> && !mutating_message<int> && !plain_message<int>);

} // namespace

TEST_SUITE("messages/traits") {
  TEST_CASE("exactly these messages change durable state") {
    std::set<std::string> mutating;
    for (const auto& entry : detail::message_catalogue)
      if (entry.mutating) mutating.emplace(entry.name);
    const std::set<std::string> expected = {
        "AdmitBatch",   "ClaimBatch",   "CommitGroup",  "ConsumeBatch",  "DivertGroups",
        "DrainReserve", "DropGroups",   "PromoteGroup", "RecordFailure", "ReleaseGroup",
        "RepayGroup",   "ReplaceGroup", "ReserveBatch", "ReserveGroups", "SettleStep"};
    CHECK(mutating == expected);
  }

  TEST_CASE("the catalogue is sorted by type, without two messages of one type or name") {
    std::set<std::string> names;
    for (const auto& entry : detail::message_catalogue) {
      CHECK(names.emplace(entry.name).second);
      CHECK(message_name(entry.type) == entry.name);
      CHECK(is_mutating(entry.type) == entry.mutating);
    }
    CHECK(std::ranges::is_sorted(detail::message_catalogue, {}, &detail::message_entry::type));
    CHECK(std::ranges::adjacent_find(detail::message_catalogue, {}, &detail::message_entry::type) ==
          std::end(detail::message_catalogue));
  }

  TEST_CASE("a type is the hash of its full name: the same in every build") {
    std::uint32_t hash = 2166136261U;
    for (const char letter : std::string("weir.CommitGroup"))
      hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
    CHECK(message_traits<CommitGroup>::type == message_type{hash});
    CHECK(message_traits<CommitGroup>::name == "CommitGroup");
  }

  TEST_CASE("a text field that is absent is empty") {
    CHECK(text_of(nullptr).empty());
    RequestCheckpointT want;
    CHECK(text_of(pack(want)->reason()).empty());
    want.reason = "on request";
    CHECK(text_of(pack(want)->reason()) == "on request");
  }
}

} // namespace weir
