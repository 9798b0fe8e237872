/// Bundles of real runs, looked at, exported and compared; and damaged ones, of which each tool
/// says what is wrong and where.
#include "kernels/json_value.hpp"
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

/// Two bundles, with rows in flight in the first.
struct trained_job {
  trained_job() {
    job.set("grpo.max_num_steps=4");
    // Meanwhile the groups of the next step are finished.
    REQUIRE(job.run_failing("trainer.learned=delay:300ms").exited_with(0));
  }
  [[nodiscard]] std::string bundle(const std::string& name) const {
    return job.bundle(name).string();
  }
  /// The file of some segment of the bundle.
  [[nodiscard]] fs::path segment(const std::string& name) const {
    const fs::path folder = job.bundle(name) / "data_plane" / "segments";
    REQUIRE(fs::exists(folder));
    return fs::directory_iterator(folder)->path();
  }
  small_job job;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

/// The header of a safetensors file, and how many bytes follow it.
struct tensor_file {
  explicit tensor_file(const fs::path& path) {
    const std::string content = content_of(path);
    std::uint64_t length = 0;
    REQUIRE(content.size() >= sizeof length);
    std::memcpy(&length, content.data(), sizeof length);
    REQUIRE(length <= content.size() - sizeof length);
    auto parsed = kernels::parse_json(content.substr(sizeof length, length));
    REQUIRE(parsed.has_value());
    header = std::move(*parsed);
    data = content.substr(sizeof length + length);
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(const std::string& name) const {
    const auto* tensor = header.find(name);
    REQUIRE(tensor != nullptr);
    CHECK(*tensor->find("dtype")->as_string() == "I64");
    const auto& place = tensor->find("data_offsets")->items();
    const std::uint64_t begin = *place[0].as_unsigned();
    std::vector<std::int64_t> read((*place[1].as_unsigned() - begin) / sizeof(std::int64_t));
    std::memcpy(read.data(), data.data() + begin, read.size() * sizeof(std::int64_t));
    return read;
  }
  kernels::json_value header;
  std::string data;
};

} // namespace

TEST_SUITE("drill/tools") {
  TEST_CASE("inspect prints files, partitions, fields, segments and groups by state") {
    const trained_job run;
    const program_end seen = run_program({"inspect", run.bundle("step_2")});
    INFO(seen.output);
    CHECK(seen.exited_with(0));
    for (const char* words :
         {"step 2, cut ", "sampler in_order", "policy/weights/model.safetensors", "partition",
          "rollouts.tokens", "rollouts.reward", "dtype", "bytes on disk", "segment", "live bytes",
          "groups", "handed out", "ready", "admitted", "consumed"}) {
      CAPTURE(words);
      CHECK(seen.says(words));
    }
    CHECK(seen.says("consumed                          8")); // Two steps of four prompts.
  }

  TEST_CASE("a bundle that was set aside can be looked at under that name") {
    const trained_job run;
    fs::rename(run.job.bundle("step_4"), run.job.bundle(".abandoned-step_4"));
    for (const char* tool : {"inspect", "verify"}) {
      const program_end seen = run_program({tool, run.bundle(".abandoned-step_4")});
      INFO(seen.output);
      CHECK(seen.exited_with(0));
    }
  }

  TEST_CASE("export writes each row as a line, and its values as tensors that the lines describe") {
    const trained_job run;
    const fs::path target = run.job.home() / "exported" / "two";
    const program_end done = run_program({"export", run.bundle("step_2"), target.string()});
    INFO(done.output);
    REQUIRE(done.exited_with(0));
    CHECK(done.says("rollouts.safetensors"));
    const auto rows = lines_of(content_of(target / "rollouts.jsonl"));
    const tensor_file tensors(target / "rollouts.safetensors");
    REQUIRE_FALSE(rows.empty());
    std::vector<std::int64_t> lengths;
    for (const std::string& line : rows) {
      const auto row = kernels::parse_json(line);
      REQUIRE(row.has_value());
      CHECK(*row->find("state")->as_string() == "committed");
      CHECK(row->find("tags")->find("group")->as_unsigned().has_value());
      lengths.push_back(static_cast<std::int64_t>(
          *row->find("shapes")->find("tokens")->items().front().as_unsigned()));
    }
    const auto* rewards = tensors.header.find("reward");
    REQUIRE(rewards != nullptr);
    CHECK(*rewards->find("dtype")->as_string() == "F32");
    CHECK(rewards->find("shape")->items().front().as_unsigned() == rows.size());
    if (tensors.header.find("tokens.offsets") != nullptr) {
      const auto offsets = tensors.numbers("tokens.offsets");
      REQUIRE(offsets.size() == rows.size() + 1);
      for (std::size_t row = 0; row < rows.size(); ++row)
        CHECK(offsets[row + 1] - offsets[row] == lengths[row]);
      CHECK(tensors.numbers("tokens.rows").size() == rows.size());
    } else {
      CHECK(std::ranges::all_of(lengths, [&](auto length) { return length == lengths.front(); }));
    }
    std::uint64_t end = 0;
    for (std::size_t at = 1; at < tensors.header.items().size(); ++at) // The first is the metadata.
      end =
          std::max(end, *tensors.header.items()[at].find("data_offsets")->items()[1].as_unsigned());
    CHECK(end == tensors.data.size());
    const auto groups = lines_of(content_of(target / "groups.jsonl"));
    CHECK_FALSE(groups.empty());
    for (const std::string& line : groups)
      CHECK(kernels::parse_json(line)->find("state")->as_string() != nullptr);
  }

  TEST_CASE("export never writes over anything") {
    const trained_job run;
    const fs::path target = run.job.home() / "exported";
    REQUIRE(run_program({"export", run.bundle("step_2"), target.string()}).exited_with(0));
    const file_tree before = tree_of(target);
    const program_end again = run_program({"export", run.bundle("step_4"), target.string()});
    INFO(again.output);
    CHECK(again.exited_with(1));
    CHECK(again.says("export into a new directory"));
    CHECK(tree_of(target) == before);
  }

  TEST_CASE("diff finds nothing between a bundle and itself, and names what two steps changed") {
    const trained_job run;
    const program_end same = run_program({"diff", run.bundle("step_2"), run.bundle("step_2")});
    INFO(same.output);
    CHECK(same.exited_with(0));
    CHECK(same.says("no difference"));
    const program_end two = run_program({"diff", run.bundle("step_2"), run.bundle("step_4")});
    INFO(two.output);
    CHECK(two.exited_with(1));
    CHECK(two.says("step: 2 -> 4"));
    CHECK(two.says("consumed: 8 -> 16"));
    CHECK(two.says("file policy/weights/model.safetensors: differs"));
    CHECK(two.says("rows of rollouts: "));
    CHECK(two.says("groups "));
    CHECK_FALSE(two.says("no difference"));
    CHECK(run_program({"diff", run.bundle("step_2"), run.bundle("step_9")}).exited_with(2));
  }

  TEST_CASE("of a damaged segment verify says which chunk of which file, at which byte") {
    const trained_job run;
    const fs::path file = run.segment("step_2");
    std::string content = content_of(file);
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
    write_file(file, content);
    const program_end found = run_program({"verify", run.bundle("step_2")});
    INFO(found.output);
    CHECK(found.exited_with(1));
    CHECK(found.says("corrupt: "));
    CHECK(found.says("data_plane/segments/" + file.filename().string() + ": checksum "));
    CHECK(found.says("in the rows: "));
    CHECK(found.says("at byte "));
    for (const char* tool : {"inspect", "export", "diff"}) {
      CAPTURE(tool);
      std::vector<std::string> words{tool, run.bundle("step_2")};
      if (std::string(tool) != "inspect") words.push_back(run.bundle("step_4"));
      const program_end refused = run_program(words);
      INFO(refused.output);
      CHECK_FALSE(refused.exited_with(0));
      CHECK(refused.says(file.filename().string()));
    }
  }

  TEST_CASE("a directory that is no bundle is refused by every tool, by name") {
    const small_job job;
    fs::create_directories(job.bundle("step_1"));
    for (const char* tool : {"inspect", "verify", "export", "diff"}) {
      CAPTURE(tool);
      std::vector<std::string> words{tool, job.bundle("step_1").string()};
      if (std::string(tool) == "export" || std::string(tool) == "diff")
        words.push_back((job.home() / "other").string());
      const program_end refused = run_program(words);
      INFO(refused.output);
      CHECK_FALSE(refused.exited_with(0));
      CHECK(refused.says("MANIFEST: missing"));
    }
    CHECK_FALSE(fs::exists(job.home() / "other"));
  }

  TEST_CASE("bundles of one step share the policy, and every tool says so") {
    const small_job job({"checkpointing.save_interval_s=0.02", "checkpointing.save_period=1000"});
    REQUIRE(job.run().exited_with(0));
    CHECK(job.audit().exited_with(0));
    for (const auto& entry : fs::directory_iterator(job.checkpoints())) {
      const fs::path path = entry.path();
      if (!path.filename().string().starts_with("step_")) continue;
      CHECK(run_program({"verify", path.string()}).exited_with(0));
      const std::string step = path.filename().string();
      if (step.find('.') == std::string::npos) continue;
      CHECK(fs::hard_link_count(path / "policy" / "weights" / "model.safetensors") >= 2);
    }
  }
}

} // namespace weir::test
