#include "tests/drill/small_job.hpp"

#include "messages/error.hpp"

#include <fstream>
#include <iterator>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

constexpr const char* config_text = R"(grpo:
  num_prompts_per_step: 4
  num_generations_per_prompt: 2
  max_num_steps: 6
  max_num_epochs: null
  seed: 1
policy:
  architecture: {hidden: 32, layers: 1, heads: 2, kv_heads: 2, ffn: 64, context: 48}
  generation: {max_batch_size: 16, max_new_tokens: 4, device: cpu}
data:
  train: {path: problems.jsonl}
  prompt_template: "{input} "
env:
  kind: exact_answer
async_rl:
  sampler: {name: in_order, max_lookahead_versions: 1}
data_plane: {capacity_bytes: 64 MiB, segment_bytes: 1 MiB}
checkpointing:
  checkpoint_dir: run/checkpoints
  save_period: 2
  keep_top_k: 3
)";

} // namespace

file_tree tree_of(const fs::path& directory) {
  file_tree tree;
  std::error_code none;
  for (fs::recursive_directory_iterator at(directory, none), end; at != end; ++at) {
    const std::string name = fs::relative(at->path(), directory).string();
    if (at->is_symlink())
      tree[name] = "link to " + fs::read_symlink(at->path()).string();
    else
      tree[name] = at->is_directory() ? "folder" : "file " + content_of(at->path());
  }
  return tree;
}

small_job::small_job(const std::vector<std::string>& overrides) {
  constexpr std::uint64_t problems = 40;
  write_config(config_text);
  write_data(problem_lines(problems));
  for (const std::string& one : overrides)
    set(one);
}

small_job& small_job::set(const std::string& override_) {
  settings_.emplace_back("--set");
  settings_.push_back(override_);
  return *this;
}

std::vector<std::string> small_job::command(const std::vector<std::string>& further) const {
  std::vector<std::string> words = {"run", config_path()};
  words.insert(words.end(), settings_.begin(), settings_.end());
  words.insert(words.end(), further.begin(), further.end());
  return words;
}

program_end small_job::run(const std::vector<std::string>& further) const {
  return run_program(command(further));
}

program_end small_job::run_failing(const std::string& points) const {
  return run({"--failpoints", points});
}

program_end small_job::audit() const {
  return run_program({"audit", run_directory().string()});
}

void small_job::write_data(const std::string& lines) const {
  write_file(data_path(), lines);
}

void small_job::write_config(const std::string& text) const {
  write_file(config_path(), text);
}

std::string problem_lines(std::uint64_t count) {
  constexpr std::uint64_t digits = 10;
  std::string lines;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t left = i / digits;
    const std::uint64_t right = i % digits;
    lines += R"({"question": ")" + std::to_string(left) + " + " + std::to_string(right) +
             R"( = ?", "answer": ")" + std::to_string(left + right) + "\"}\n";
  }
  return lines;
}

std::string content_of(const fs::path& file) {
  std::ifstream from(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(from), std::istreambuf_iterator<char>()};
}

void write_file(const fs::path& file, const std::string& content) {
  std::ofstream to(file, std::ios::binary | std::ios::trunc);
  to << content;
  ensure(static_cast<bool>(to.flush()), "a test can write its files");
}

bool has_entry(const fs::path& directory, const std::string& prefix) {
  std::error_code none;
  for (fs::directory_iterator at(directory, none), end; at != end; ++at)
    if (at->path().filename().string().starts_with(prefix)) return true;
  return false;
}

} // namespace weir::test
