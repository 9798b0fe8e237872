#include "actors/generator/generation_queue.hpp"

#include "messages/rule.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weir {

result<std::uint64_t> generation_queue::enqueue(GenerateGroupT request, std::size_t groups_max) {
  const std::string name = "group " + std::to_string(request.group);
  if (groups_.size() >= groups_max)
    return failure(errc::exhausted, name + ": the generator holds " + std::to_string(groups_max) +
                                        " groups already");
  if (find(request.group, request.content_attempt))
    return failure(errc::already_exists, name + ": this attempt is being generated already");
  const std::uint64_t tag = next_tag_++;
  entry added;
  added.request = std::move(request);
  groups_.emplace(tag, std::move(added));
  waiting_.push_back(tag);
  return tag;
}

std::optional<std::uint64_t> generation_queue::next_startable(std::uint64_t version) const {
  if (waiting_.empty()) return std::nullopt;
  const auto place = groups_.find(waiting_.front());
  ensure(place != groups_.end(), "a waiting group is known");
  const bool lags = place->second.request.minimum_version > version;
  if (lags && enforced(rule::version_live_on_every_generator)) return std::nullopt;
  return waiting_.front();
}

void generation_queue::started(std::uint64_t tag) {
  ensure(!waiting_.empty() && waiting_.front() == tag, "groups start in the order they came");
  waiting_.pop_front();
}

void generation_queue::postpone(std::uint64_t tag) {
  if (groups_.contains(tag)) waiting_.push_front(tag);
}

bool generation_queue::was_started(std::uint64_t tag) const {
  return groups_.contains(tag) && std::ranges::find(waiting_, tag) == waiting_.end();
}

void generation_queue::append(const generated_token& token) {
  const auto place = groups_.find(token.tag);
  if (place == groups_.end()) return;
  entry& group = place->second;
  unsent& sibling = group.siblings[token.sibling];
  sibling.tokens.push_back(token.token);
  sibling.logprobs.push_back(token.logprob);
  sibling.versions.push_back(token.version);
  sibling.finish = token.finish;
  ++group.unsent_tokens;
  if (token.finish != FinishReason::unfinished) {
    ++group.finished;
    group.has_finish_to_send = true;
  }
  ensure(group.finished <= group.request.siblings, "no sibling finishes twice");
}

std::vector<std::uint64_t> generation_queue::deliverable(std::size_t tokens_min) const {
  std::vector<std::uint64_t> tags;
  for (const auto& [tag, group] : groups_) {
    if (group.unsent_tokens >= tokens_min || group.has_finish_to_send) tags.push_back(tag);
  }
  return tags;
}

TokenBatchT generation_queue::take(std::uint64_t tag) {
  TokenBatchT batch;
  const auto place = groups_.find(tag);
  if (place == groups_.end()) return batch;
  entry& group = place->second;
  for (auto& [index, sibling] : group.siblings) {
    auto part = std::make_unique<SiblingTokensT>();
    part->sibling = index;
    part->tokens = std::move(sibling.tokens);
    part->logprobs = std::move(sibling.logprobs);
    part->versions = std::move(sibling.versions);
    part->finish = sibling.finish;
    batch.siblings.push_back(std::move(part));
  }
  group.siblings.clear();
  group.unsent_tokens = 0;
  group.has_finish_to_send = false;
  return batch;
}

void generation_queue::put_back(std::uint64_t tag, const TokenBatchT& batch) {
  const auto place = groups_.find(tag);
  if (place == groups_.end()) return;
  entry& group = place->second;
  ensure(group.siblings.empty(), "nothing was appended between take and put_back");
  for (const auto& part : batch.siblings) {
    group.siblings[part->sibling] = {part->tokens, part->logprobs, part->versions, part->finish};
    group.unsent_tokens += part->tokens.size();
    group.has_finish_to_send |= part->finish != FinishReason::unfinished;
  }
}

bool generation_queue::complete(std::uint64_t tag) const {
  const auto place = groups_.find(tag);
  return place != groups_.end() && place->second.finished == place->second.request.siblings;
}

std::optional<std::uint64_t> generation_queue::find(std::uint64_t group,
                                                    std::uint32_t content_attempt) const {
  for (const auto& [tag, known] : groups_) {
    if (known.request.group == group && known.request.content_attempt == content_attempt)
      return tag;
  }
  return std::nullopt;
}

const GenerateGroupT* generation_queue::request(std::uint64_t tag) const {
  const auto place = groups_.find(tag);
  return place != groups_.end() ? &place->second.request : nullptr;
}

void generation_queue::remove(std::uint64_t tag) {
  groups_.erase(tag);
  std::erase(waiting_, tag);
}

std::vector<std::uint64_t> generation_queue::tags() const {
  std::vector<std::uint64_t> all;
  for (const auto& [tag, group] : groups_)
    all.push_back(tag);
  return all;
}

} // namespace weir
