/// `weir graph`: the composed job as a drawing, without a trace on disk.
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

namespace weir::test {

namespace {

program_end graph_of(const small_job& job, const std::vector<std::string>& further = {}) {
  std::vector<std::string> arguments{"graph", job.config_path()};
  arguments.insert(arguments.end(), further.begin(), further.end());
  return run_program(std::move(arguments));
}

} // namespace

TEST_SUITE("drill/graph") {
  TEST_CASE("every actor of the job is drawn with its role, and nothing is written") {
    const small_job job;
    const file_tree before = tree_of(job.home());
    const program_end end = graph_of(job, {"--set", "policy.generation.generators=2"});
    INFO(end.output);
    CHECK(end.exited_with(0));
    CHECK(end.output.starts_with("digraph weir {"));
    for (const char* actor :
         {"\"dataloader\" [label=\"dataloader\\nowner\"", "\"sampler\" [label=\"sampler\\nowner\"",
          "\"replay\" [label=\"replay\\norigin, owner\"", "\"rollout\" [label=\"rollout\\norigin\"",
          "\"trainer\" [label=\"trainer\\norigin, owner\"", "\"generator-1\" [label=",
          "\"environment-0\" [label=", "\"checkpoint\" [label=\"checkpoint\""})
      CHECK_MESSAGE(end.says(actor), actor);
    for (const char* edge :
         {"\"rollout\" -> \"dataloader\";", "\"rollout\" -> \"generator-1\";",
          "\"trainer\" -> \"replay\";", "\"checkpoint\" -> \"trainer\" [style=dashed"})
      CHECK_MESSAGE(end.says(edge), edge);
    CHECK(tree_of(job.home()) == before);
  }

  TEST_CASE("the weights of a model are not read, only its shape is") {
    const small_job job;
    const program_end end = graph_of(job, {"--set", "policy.model=" + job.home().string()});
    INFO(end.output);
    CHECK(end.exited_with(1));
    CHECK(end.says("policy.model"));
    CHECK(end.says("config.json"));
    write_file(job.home() / "config.json",
               R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 32,
                   "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
                   "num_key_value_heads": 1, "max_position_embeddings": 64,
                   "rms_norm_eps": 1e-5, "rope_theta": 10000.0})");
    const program_end drawn = graph_of(job, {"--set", "policy.model=" + job.home().string()});
    INFO(drawn.output);
    CHECK(drawn.exited_with(0));
  }

  TEST_CASE("a bad configuration is refused as by weir check") {
    const small_job job;
    const program_end drawn = graph_of(job, {"--set", "grpo.max_num_step=3"});
    const program_end checked =
        run_program({"check", job.config_path(), "--set", "grpo.max_num_step=3"});
    CHECK(drawn.exited_with(2));
    CHECK(drawn.output == checked.output);
  }

  TEST_CASE("Graphviz reads it") {
    if (std::system("command -v dot >/dev/null") != 0) {
      MESSAGE("no dot here: nothing to read it with");
      return;
    }
    const small_job job;
    const program_end end = graph_of(job);
    const auto file = job.home() / "graph.dot";
    write_file(file, end.output);
    CHECK(std::system(("dot -Tsvg " + file.string() + " >/dev/null").c_str()) == 0);
  }
}

} // namespace weir::test
