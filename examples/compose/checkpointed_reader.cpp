/// A program of your own: two roles of the library, one actor of yours, a checkpoint over all.
///
/// Shows: composing a graph; one leased transaction over three owners; a published bundle.
/// Prints: read 6 prompts, 30 characters
///         published step_3
#include "actors/dataloader/dataloader.hpp"
#include "actors/graph.hpp"
#include "actors/sampler/sampler.hpp"
#include "examples/compose/reader.hpp"
#include "examples/compose/run_parts.hpp"

#include <filesystem>

namespace {

weir::result<weir::dataloader_state> prompts() {
  std::string lines;
  for (const char* question : {"1+1=?", "2+2=?", "3+3=?", "4+4=?", "5+5=?", "6+6=?"})
    lines.append("{\"question\": \"").append(question).append("\", \"answer\": \"?\"}\n");
  auto records = weir::dataset::parse("sums", std::move(lines), {});
  if (!records) return weir::failure(std::move(records.error()));
  return weir::dataloader_state(std::move(*records), {});
}

weir::result<std::string> run(weir::dataplane::disk& storage, const std::string& directory) {
  const run_parts parts(storage, directory);
  auto cursor = prompts();
  const auto policy = weir::make_sampler_policy({});
  // [readme:compose]
  weir::world env({.storage = &storage});
  weir::graph actors(env, {.life = parts.life});
  const auto loader = actors.add<weir::dataloader>("dataloader", std::move(*cursor), *parts.log);
  const auto ledger = actors.add<weir::sampler>(
      "sampler", weir::sampler_state(*policy, 2, weir::failure_limits()), *parts.log);
  actors.add<reader>("reader", loader, ledger, *parts.log); // Yours: an origin and an owner.
  const weir::checkpoint_peers barrier{{"reader"}, {"dataloader", "sampler", "reader"}, {}};
  const auto keeper = actors.add<weir::checkpoint>("checkpoint", weir::checkpoint_options(),
                                                   barrier, parts.services);

  if (auto started = actors.start(); !started) return weir::failure(started.error());
  if (auto ended = actors.wait_blocking(); !ended) return weir::failure(ended.error());
  auto saved = actors.ask_blocking(keeper, weir::pack(weir::RequestCheckpointT()),
                                   weir::within(std::chrono::seconds(10)));
  if (!saved) return weir::failure(saved.error());
  return weir::text_of((*saved)->bundle());
  // [end]
}

} // namespace

int main() {
  const auto storage = weir::dataplane::make_posix_disk();
  const auto path = std::filesystem::temp_directory_path() / "weir-checkpointed-reader";
  std::filesystem::remove_all(path);
  const auto bundle = run(*storage, path.string());
  std::filesystem::remove_all(path);
  if (bundle)
    std::printf("published %s\n", bundle->c_str());
  else
    std::fprintf(stderr, "%s\n", weir::to_string(bundle.error()).c_str());
  return bundle ? 0 : 1;
}
