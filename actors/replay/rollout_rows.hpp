/// How a group lies in the data plane: one row per sibling in the partition "rollouts".
///
/// | field         | dtype | shape      | content |
/// |---------------|-------|------------|---------|
/// | tokens        | i32   | [tokens]   | prompt, then completion |
/// | logprobs      | f32   | [completion] | of each completion token, under the raw policy |
/// | versions      | i64   | [completion] | weights that made each completion token |
/// | prompt_length | i64   | scalar     | tokens of the prompt |
/// | reward        | f32   | scalar     | |
///
/// Tags: group, sibling, attempt (integers).
#pragma once

#include "dataplane/batch.hpp"
#include "dataplane/row.hpp"
#include "messages/message.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weir {

inline constexpr const char* rollout_partition = "rollouts";

/// Fields that every committed row has, in the order in which they are read.
[[nodiscard]] std::span<const std::string> rollout_fields();

/// The staged form of a group: borrows the message's bytes, which must outlive the rows.
/// Errors: invalid_argument naming group and sibling when lists contradict each other.
class rollout_rows {
public:
  [[nodiscard]] static result<rollout_rows> of(const StageGroup& group);

  [[nodiscard]] std::span<const dataplane::row_input> rows() const { return rows_; }
  /// Versions of each sibling's tokens.
  [[nodiscard]] std::span<const std::vector<std::uint64_t>> versions() const { return versions_; }

private:
  std::vector<dataplane::row_input> rows_;
  std::vector<std::vector<std::uint64_t>> versions_;
  std::vector<std::vector<std::int64_t>> stored_versions_;
  std::vector<std::int64_t> prompt_lengths_;
  std::vector<float> rewards_;
};

/// One row of a batch that was read with `rollout_fields`.
[[nodiscard]] SiblingRolloutT sibling_of(const dataplane::batch& rows, std::size_t row);

} // namespace weir
