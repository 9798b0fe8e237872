/// What all actors of one graph share: the directory, the first failure, the counters.
/// Thread-safe; outlives every actor of the graph.
#pragma once

#include "actors/runtime/detail/address.hpp"
#include "actors/runtime/world.hpp"
#include "messages/ids.hpp"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace weir::detail {

class graph_core {
public:
  graph_core(world& env, incarnation life) : env_(env), life_(life) {}

  [[nodiscard]] world& env() const noexcept { return env_; }
  [[nodiscard]] incarnation life() const noexcept { return life_; }

  void enter(const std::string& name, address where);
  /// Empty when no actor has this name.
  [[nodiscard]] address find(const std::string& name) const;
  /// As `find`, for the actor `asking`; what is not there while the graph is built is remembered.
  [[nodiscard]] address look_up(const std::string& asking, const std::string& name);
  /// The graph is built. Gives who looked for whom in vain until then.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> seal_directory();

  /// The first one is kept; later ones are logged.
  void failed(const std::string& actor, error reason);
  /// The run is complete.
  void finished();
  void started(const std::string& actor);
  void ended(const std::string& actor);

  /// Waits for the end of the run: its first failure, or nothing.
  [[nodiscard]] result<void> wait_finished(std::optional<std::chrono::nanoseconds> limit);
  /// Waits until this actor has ended; false when the time is over.
  [[nodiscard]] bool wait_ended(const std::string& actor, std::chrono::nanoseconds limit);
  /// Whether the run has ended: `outcome` has something to say. Costs a read.
  [[nodiscard]] bool over() const noexcept { return over_; }
  /// The end of the run, once there is one.
  [[nodiscard]] std::optional<result<void>> outcome() const;
  [[nodiscard]] bool running(const std::string& actor) const;
  [[nodiscard]] std::optional<error> first_failure() const;

private:
  world& env_;
  const incarnation life_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, address> directory_;
  bool sealed_ = false;
  std::vector<std::pair<std::string, std::string>> missed_;
  std::map<std::string, bool> running_;
  std::optional<error> failure_;
  std::atomic<bool> over_ = false; ///< Finished, unless there is a failure.
};

} // namespace weir::detail
