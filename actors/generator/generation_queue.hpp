/// What a generator has been asked and has not delivered: groups that wait for a place or for
/// weights, and tokens that wait for credit. No actor, no decoder.
#pragma once

#include "messages/message.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace weir {

/// One token as a decoder emitted it.
struct generated_token {
  std::uint64_t tag = 0;
  std::uint32_t sibling = 0;
  std::int32_t token = 0;
  float logprob = 0.0F;
  std::uint64_t version = 0;
  FinishReason finish = FinishReason::unfinished;
};

/// Groups in the order in which they were asked for, each under a tag that is never used twice.
class generation_queue {
public:
  /// Remembers a group; errc::exhausted above `groups_max`, errc::already_exists when the same
  /// attempt of the group is here already.
  [[nodiscard]] result<std::uint64_t> enqueue(GenerateGroupT request, std::size_t groups_max);

  /// The oldest group that waits and may start on weights of `version`; none if it may not: order
  /// is kept, so that a group is never overtaken for ever.
  [[nodiscard]] std::optional<std::uint64_t> next_startable(std::uint64_t version) const;
  /// The group is in the decoder now.
  void started(std::uint64_t tag);
  /// The decoder had no place for a group that was started: it waits again, before all others.
  void postpone(std::uint64_t tag);
  /// True from `started` on.
  [[nodiscard]] bool was_started(std::uint64_t tag) const;

  /// Keeps a token until it is taken. Tokens of a tag that was removed are dropped: it was aborted.
  void append(const generated_token& token);
  /// Tags with something worth sending: a finished sibling, or at least `tokens_min` tokens.
  [[nodiscard]] std::vector<std::uint64_t> deliverable(std::size_t tokens_min) const;
  /// Takes what the group has, one entry per sibling with tokens.
  [[nodiscard]] TokenBatchT take(std::uint64_t tag);
  /// Puts a batch back in front that could not be sent.
  void put_back(std::uint64_t tag, const TokenBatchT& batch);
  /// True once the last token of every sibling was appended.
  [[nodiscard]] bool complete(std::uint64_t tag) const;

  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t group,
                                                  std::uint32_t content_attempt) const;
  [[nodiscard]] const GenerateGroupT* request(std::uint64_t tag) const;
  void remove(std::uint64_t tag);
  [[nodiscard]] std::vector<std::uint64_t> tags() const;
  [[nodiscard]] std::size_t size() const { return groups_.size(); }

private:
  struct unsent {
    std::vector<std::int32_t> tokens;
    std::vector<float> logprobs;
    std::vector<std::uint64_t> versions;
    FinishReason finish = FinishReason::unfinished;
  };
  struct entry {
    GenerateGroupT request;
    std::map<std::uint32_t, unsent> siblings;
    std::size_t unsent_tokens = 0;
    std::uint32_t finished = 0;
    bool has_finish_to_send = false;
  };

  std::map<std::uint64_t, entry> groups_; ///< By tag: the order in which they came.
  std::deque<std::uint64_t> waiting_;
  std::uint64_t next_tag_ = 1;
};

} // namespace weir
