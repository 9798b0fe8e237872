/// One life of a run: a graph of actors, composed from a job and the states that a restore gave.
#pragma once

#include "actors/main_job.hpp"
#include "examples/weir/job.hpp"
#include "examples/weir/run_output.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace weir {

/// What a life is composed from. Everything here outlives it.
struct life_parts {
  const job& work;
  world& env;
  begun_life& begun;
  std::shared_ptr<dataplane::run_directory> directory;
  std::shared_ptr<run_output> output;
  std::int64_t started_ns; ///< When the program started, of `env`'s clock.
};

/// The configured job with its real model, as a graph of actors wants it. `work` outlives it. Its
/// `read_policy` errors: corrupt, naming the file; conflict when a bundle's model has other shapes.
[[nodiscard]] main_job main_job_of(const job& work, const std::shared_ptr<run_output>& output);

/// How a life ended.
enum class life_end : std::uint8_t {
  done,        ///< The job is finished.
  interrupted, ///< A signal, or a deadline to save by: saved as far as possible, unfinished.
};

/// Composes the graph, runs it until the job is done, an actor fails, or `interrupted()` says so
/// (asked several times a second), and stops it. Errors: the first failure, with its actor.
[[nodiscard]] result<life_end> live(life_parts parts, const std::function<bool()>& interrupted);

} // namespace weir
