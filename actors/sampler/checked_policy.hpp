/// A sampler of a user's own, watched: every answer is compared with what the sampler was asked and
/// with what it said of itself. What it does wrong ends the run with an error that names it.
///
/// | it                                              | the error says                           |
/// |-------------------------------------------------|------------------------------------------|
/// | throws, or returns an error                     | which question, and its text             |
/// | selects, evicts or aborts what is not there     | the group                                |
/// | names a group twice, or one in the wrong state  | the group                                |
/// | selects more than max, or fewer than min        | the numbers                              |
/// | selects a group stamped for another step        | both steps                               |
/// | selects a group beyond its window, and says     | how far                                  |
/// | that it evicts by weight                        |                                          |
/// | has a gate that lets in more than it declared   | both numbers                             |
/// | has a gate and declared none                    | the batch that waits                     |
/// | stamps though it declared none, or backwards    | the stamps                               |
/// | selects nothing although nothing else can come  | replay notices (replay_state::outlook)   |
/// | never opens its gate, or selects nothing behind | the trainer notices (supply_watch), once |
/// | one that is shut                                | it has waited for the stall timeout      |
/// | does not come back from a question              | the watchdog names the actor that asked, |
/// |                                                 | `unanswered` the sampler and question    |
#pragma once

#include "actors/sampler/sampler_policy.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace weir {

/// Wraps `custom`. `source` tells people where it is from, such as "libmine.so:my_sampler". What it
/// declares is asked for once, here, so that it is known before a run is built.
/// Errors: invalid_argument for declarations that cannot be: no name, the name of a built-in
/// sampler, no room for N groups; or when it throws.
/// @pre custom is not null, and `groups_per_step` (N) is at least 1.
[[nodiscard]] result<std::shared_ptr<const sampler_policy>>
checked(std::shared_ptr<const sampler_policy> custom, std::string source,
        std::uint64_t groups_per_step);

/// How errors name a sampler: "sampler fair (libfair.so:fair)", or "sampler in_order".
[[nodiscard]] std::string title_of(const sampler_policy& policy);

/// "sampler fair (libfair.so:fair) has not answered select" while a question is with a sampler of
/// a user's own, else nothing. From any thread: for the error of a run that does not get on.
[[nodiscard]] std::optional<std::string> unanswered(const sampler_policy& policy);

} // namespace weir
