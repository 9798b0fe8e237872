/// Which piece of work a thread takes next, where pieces form chains: the links of one chain run in
/// order, one at a time; chains run side by side.
///
/// A gradient buffer is a chain, and the groups that are added to it are its links: the order of
/// every sum is fixed, while threads part only when less than one group is left to do. Handing out
/// whole chains would leave a core idle for up to a whole one at the end.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

namespace weir::kernels {

class chain_schedule {
public:
  struct link {
    std::size_t chain = 0;
    std::size_t index = 0; ///< Its chain is index % chains.
  };

  /// Links `first` up to `end` in `chains` chains, dealt in turn: those of a later call go on where
  /// an earlier one ended. @pre chains > 0, first <= end.
  chain_schedule(std::size_t chains, std::size_t first, std::size_t end)
      : end_(end), chains_(chains) {
    for (std::size_t next = first; next < first + chains; ++next)
      chains_[next % chains].next = next;
  }

  /// Thread-safe. Gives `finished` back, if there is one, and takes the next link of the free chain
  /// that is furthest behind. Nothing: whoever holds the chains that have links left takes them.
  [[nodiscard]] std::optional<link> take(const std::optional<link>& finished) {
    const std::lock_guard lock(mutex_);
    if (finished) chains_[finished->chain].busy = false;
    std::optional<std::size_t> chosen;
    for (std::size_t chain = 0; chain < chains_.size(); ++chain)
      if (!chains_[chain].busy && chains_[chain].next < end_ &&
          (!chosen || chains_[chain].next < chains_[*chosen].next))
        chosen = chain;
    if (!chosen) return std::nullopt;
    state& taken = chains_[*chosen];
    const link next{.chain = *chosen, .index = taken.next};
    taken.next += chains_.size();
    taken.busy = true;
    return next;
  }

private:
  struct state {
    std::size_t next = 0;
    bool busy = false;
  };

  std::mutex mutex_;
  std::size_t end_;
  std::vector<state> chains_;
};

} // namespace weir::kernels
