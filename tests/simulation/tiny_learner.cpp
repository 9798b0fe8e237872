#include "tests/simulation/tiny_learner.hpp"

#include "tests/simulation/scripted_tokens.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

namespace weir::sim {

namespace {

using policy_words = std::array<std::uint64_t, 6>;

} // namespace

const tiny_policy& tiny(const policy_ptr& policy) {
  return *static_cast<const tiny_policy*>(policy.get());
}

policy_ptr make_policy(tiny_policy policy) {
  return std::make_shared<const tiny_policy>(policy);
}

std::vector<std::byte> encode(const tiny_policy& policy) {
  const policy_words words = {
      policy.step,  policy.trained.count, policy.trained.sum_low, policy.trained.sum_high,
      policy.order, policy.bits};
  std::vector<std::byte> bytes(sizeof(words));
  std::memcpy(bytes.data(), words.data(), sizeof(words));
  return bytes;
}

result<tiny_policy> decode_policy(std::span<const std::byte> bytes) {
  policy_words words{};
  if (bytes.size() != sizeof(words))
    return failure(errc::corrupt, "a policy has " + std::to_string(sizeof(words)) +
                                      " bytes, and these are " + std::to_string(bytes.size()));
  std::memcpy(words.data(), bytes.data(), sizeof(words));
  return tiny_policy{words[0], {words[1], words[2], words[3]}, words[4], words[5]};
}

namespace {

result<policy_ptr> read_file(const restored_states& states, const std::string& path) {
  const auto file = states.policy.find(path);
  if (file == states.policy.end()) return failure(errc::corrupt, path + ": is not in the bundle");
  const auto policy = decode_policy(file->second);
  if (!policy) return failure(policy.error());
  return make_policy(*policy);
}

result<std::vector<dataplane::finished_section>>
write_file(const tiny_policy& policy, const std::string& path, const section_target& target) {
  auto file = dataplane::section_file::create(target.storage, target.directory, path, target.epoch);
  if (!file) return failure(std::move(file.error()));
  if (auto appended = file->append(encode(policy)); !appended)
    return failure(std::move(appended.error()));
  auto finished = file->finish();
  if (!finished) return failure(std::move(finished.error()));
  return std::vector<dataplane::finished_section>(1, std::move(*finished));
}

std::string path_of(weight_version version) {
  return version_directory(version) + "tiny.bin";
}

} // namespace

result<policy_ptr> read_tiny_policy(const restored_states& states) {
  return read_file(states, tiny_policy_path);
}

result<policy_ptr> read_tiny_version(const restored_states& states, weight_version version) {
  auto policy = read_file(states, path_of(version));
  if (policy && tiny(*policy).step != version.value)
    return failure(errc::corrupt, path_of(version) + ": holds the policy of step " +
                                      std::to_string(tiny(*policy).step));
  return policy;
}

result<void> tiny_learner::begin_step(const policy_ptr& before) {
  next_ = tiny(before);
  report_ = {};
  return {};
}

result<void> tiny_learner::add_groups(const std::vector<ClaimedGroupT>& groups) {
  for (const ClaimedGroupT& group : groups) {
    next_.trained.add(group_id(group.group));
    next_.order = chained(next_.order, group.group);
    next_.bits = chained(next_.bits, group.group);
    if (group.siblings.size() != options_.siblings)
      return failure(errc::internal, "group " + std::to_string(group.group) + " was claimed with " +
                                         std::to_string(group.siblings.size()) + " of " +
                                         std::to_string(options_.siblings) + " siblings");
    if (auto fine = check_versions(group); !fine) return fine;
    for (std::uint32_t sibling = 0; sibling < options_.siblings; ++sibling) {
      if (!belongs(group, sibling))
        return failure(errc::internal, "sibling " + std::to_string(sibling) + " of group " +
                                           std::to_string(group.group) +
                                           " was claimed with tokens of another one");
      const SiblingRolloutT& row = *group.siblings[sibling];
      for (const std::int32_t token : row.tokens)
        next_.bits = chained(next_.bits, static_cast<std::uint32_t>(token));
      next_.bits = chained(next_.bits, std::bit_cast<std::uint32_t>(row.reward));
      report_.tokens += row.tokens.size();
      report_.reward += static_cast<double>(row.reward);
    }
  }
  return {};
}

result<learned> tiny_learner::finish_step() {
  next_.order = chained(next_.order, next_.step);
  next_.bits = chained(next_.bits, next_.step);
  ++next_.step;
  return learned{make_policy(next_), report_};
}

/// A token says by its value which weights made it. What was published in earlier lives is not
/// known here.
result<void> tiny_learner::check_versions(const ClaimedGroupT& group) const {
  for (const auto& row : group.siblings)
    for (std::size_t i = 0; i < row->versions.size(); ++i) {
      const auto weights = published_->find(row->versions[i]);
      if (weights == published_->end()) continue;
      if (made_by(row->tokens[row->prompt_length + i], weights->second)) continue;
      return failure(errc::internal,
                     "group " + std::to_string(group.group) + " has a token that bears version " +
                         std::to_string(row->versions[i]) + " and was made by other weights");
    }
  return {};
}

/// The attempt is not claimed along: any that the failure limits allow.
bool tiny_learner::belongs(const ClaimedGroupT& group, std::uint32_t sibling) const {
  const SiblingRolloutT& row = *group.siblings[sibling];
  token_key key{
      .run_seed = options_.run_seed,
      .sample = {group.group / options_.dataset_length, group.group % options_.dataset_length},
      .content_attempt = 0,
      .sibling = sibling,
      .index = 0};
  for (; key.content_attempt < options_.content_attempts_max; ++key.content_attempt) {
    bool same = row.tokens.size() > row.prompt_length;
    for (std::size_t at = row.prompt_length; same && at < row.tokens.size(); ++at) {
      key.index = at - row.prompt_length;
      same = (static_cast<std::uint32_t>(row.tokens[at]) & 0xffffU) == owner_half(key);
    }
    if (same) return true;
  }
  return false;
}

result<learned> tiny_learner::warm_up(const policy_ptr& before, std::uint64_t step) {
  tiny_policy next = tiny(before);
  next.bits = chained(next.bits, step);
  return learned{make_policy(next), {}};
}

result<std::vector<warmup_sample>> tiny_learner::sample(const policy_ptr&) {
  return std::vector<warmup_sample>(1, {"prompt", "answer", "completion"});
}

attachment tiny_learner::publish(const policy_ptr& policy) const {
  published_->insert_or_assign(tiny(policy).step, tiny(policy).bits);
  return copy_attachment(encode(tiny(policy)));
}

result<std::vector<dataplane::finished_section>>
tiny_learner::write(const policy_ptr& policy, const section_target& target) const {
  return write_file(tiny(policy), tiny_policy_path, target);
}

result<std::vector<dataplane::finished_section>>
tiny_learner::write_version(const policy_ptr& policy, weight_version version,
                            const section_target& target) const {
  return write_file(tiny(policy), path_of(version), target);
}

} // namespace weir::sim
