/// `weir graph`: composes the job as `weir run` would, and draws it instead of starting it.
#include "dataplane/posix_disk.hpp"
#include "examples/weir/commands.hpp"
#include "examples/weir/life.hpp"
#include "examples/weir/unavailable.hpp"

#include <cstdio>

namespace weir {

namespace {

result<std::string> draw(const run_config& config) {
  const auto storage = dataplane::make_posix_disk();
  auto work = sketch_job(*storage, config);
  if (!work) return failure(std::move(work.error()));
  world env({.seed = config.grpo.seed, .storage = storage.get()});
  const auto output = std::make_shared<run_output>(config.grpo.max_num_steps, config.logger.level);
  auto life = sketch_life(main_job_of(*work, output), env);
  if (!life) return failure(std::move(life.error()));
  return life->actors->describe();
}

} // namespace

exit_code print_graph(const std::string& config_path, const std::vector<std::string>& overrides) {
  const auto read = load_config(config_path, overrides);
  if (!read) {
    std::fprintf(stderr, "%s\n", read.error().text.c_str());
    return exit_code::bad_usage;
  }
  const std::vector<std::string> gaps = unavailable(read->config);
  for (const std::string& gap : gaps)
    std::fprintf(stderr, "%s: %s\n", config_path.c_str(), gap.c_str());
  if (!gaps.empty()) return exit_code::bad_usage;
  const auto drawn = draw(read->config);
  if (!drawn) {
    std::fprintf(stderr, "%s\n", to_string(drawn.error()).c_str());
    return exit_code::failed;
  }
  std::fputs(drawn->c_str(), stdout);
  return exit_code::done;
}

} // namespace weir
