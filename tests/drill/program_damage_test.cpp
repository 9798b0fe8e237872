/// The tools on bundles that are damaged, truncated, foreign, empty, of a newer format, half there
/// or not to be read: each says which file and why, ends with an error, and neither crashes nor
/// waits. What is damaged behind checksums that fit is made here as well.
#include "dataplane/checksum.hpp"
#include "dataplane/manifest.hpp"
#include "tests/drill/small_job.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <span>

namespace weir::test {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t much = std::uint64_t{1} << 60U;
const std::string recovery = "rollout_recovery.fb";
const std::string index_file = "data_plane/index.fb";
const std::string weights = "policy/weights/model.safetensors";
const std::string notes = "training_info.json";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <class Number>
void set_number(std::string& bytes, std::size_t at, Number value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// Puts the checksum of the first `covered` bytes behind them, little-endian.
void seal(std::string& bytes, std::size_t covered) {
  const auto sum = dataplane::checksum_of(bytes_of(bytes).first(covered));
  set_number(bytes, covered, sum.low);
  set_number(bytes, covered + sizeof sum.low, sum.high);
}

/// Two bundles of a run, and a copy of the first to be damaged.
class damaged_bundle {
public:
  damaged_bundle() {
    job_.set("grpo.max_num_steps=4");
    REQUIRE(job_.run_failing("trainer.learned=delay:300ms").exited_with(0));
    reset();
  }

  void reset() {
    std::error_code none;
    fs::permissions(path(), fs::perms::owner_all, none);
    fs::remove_all(path());
    fs::create_directories(path().parent_path());
    fs::copy(job_.bundle("step_2"), path(), fs::copy_options::recursive);
  }

  [[nodiscard]] fs::path path() const { return job_.home() / "damaged" / "step_2"; }
  [[nodiscard]] const small_job& job() const { return job_; }
  [[nodiscard]] std::string segment() const {
    const fs::path folder = path() / "data_plane" / "segments";
    return "data_plane/segments/" + fs::directory_iterator(folder)->path().filename().string();
  }

  /// Changes a file, and its entry in the manifest with it.
  void rewrite(const std::string& file, const std::function<void(std::string&)>& change) const {
    std::string content = content_of(path() / file);
    change(content);
    write_file(path() / file, content);
    const std::string old = content_of(path() / "MANIFEST");
    auto listed = dataplane::decode_manifest(bytes_of(old));
    REQUIRE(listed.has_value());
    for (auto& one : listed->files)
      if (one.path == file) one = {file, content.size(), dataplane::checksum_of(bytes_of(content))};
    const auto made = dataplane::encode_manifest(*listed);
    REQUIRE(made.has_value());
    write_file(path() / "MANIFEST", {reinterpret_cast<const char*>(made->data()), made->size()});
  }

  [[nodiscard]] program_end run(const std::string& tool) const {
    std::vector<std::string> words{tool, path().string()};
    if (tool == "export") words.push_back((job_.home() / "exported").string());
    if (tool == "diff") words.push_back(job_.bundle("step_4").string());
    return run_program(words);
  }

  /// Every one of `tools` refuses, and says all of `words`.
  void refused(const std::vector<std::string>& tools, const std::vector<std::string>& words) const {
    for (const std::string& tool : tools) {
      CAPTURE(tool);
      const program_end end = run(tool);
      INFO(end.output);
      CHECK((end.exited_with(1) || end.exited_with(2)));
      for (const std::string& word : words)
        CHECK_MESSAGE(end.says(word), word);
    }
    CHECK_FALSE(fs::exists(job_.home() / "exported"));
  }

private:
  small_job job_;
};

const std::vector<std::string> all_tools = {"verify", "inspect", "export", "diff"};
/// Rows are exported from a bundle whose weights are lost: that is what one would want then.
const std::vector<std::string> all_but_export = {"verify", "inspect", "diff"};

/// What stands where a file of a bundle should.
struct replacement {
  const char* what;
  std::function<void(const fs::path&)> put;
};

const std::vector<replacement> replacements = {
    {"nothing", [](const fs::path& at) { fs::remove(at); }},
    {"an empty file", [](const fs::path& at) { fs::resize_file(at, 0); }},
    {"the first bytes", [](const fs::path& at) { fs::resize_file(at, 50); }},
    {"four terabytes of zeros",
     [](const fs::path& at) { fs::resize_file(at, std::uintmax_t{1} << 42U); }},
    {"a folder",
     [](const fs::path& at) {
       fs::remove(at);
       fs::create_directory(at);
     }},
    {"a pipe that nobody writes to",
     [](const fs::path& at) {
       fs::remove(at);
       REQUIRE(::mkfifo(at.c_str(), 0600) == 0);
     }},
    {"a link to itself",
     [](const fs::path& at) {
       fs::remove(at);
       fs::create_symlink(at.filename(), at);
     }},
};

} // namespace

TEST_SUITE("drill/damage") {
  TEST_CASE("whatever stands in place of a file, the file is named") {
    damaged_bundle bundle;
    const std::string segment = bundle.segment();
    for (const std::string& file : {std::string("MANIFEST"), index_file, segment, recovery})
      for (const replacement& instead : replacements) {
        CAPTURE(file);
        CAPTURE(std::string(instead.what));
        bundle.reset();
        instead.put(bundle.path() / file);
        bundle.refused(all_tools, {fs::path(file).filename().string() + ": "});
      }
  }

  TEST_CASE("a file that the rows do not need is missed by all tools but export") {
    damaged_bundle bundle;
    for (const std::string& file : {weights, notes})
      for (const replacement& instead : replacements) {
        CAPTURE(file);
        CAPTURE(std::string(instead.what));
        bundle.reset();
        instead.put(bundle.path() / file);
        bundle.refused(all_but_export, {file + ": "});
        REQUIRE(bundle.run("export").exited_with(0));
        fs::remove_all(bundle.job().home() / "exported");
      }
  }

  TEST_CASE(
      "a flipped bit in the weights is found by verify, and diff does not say no difference") {
    damaged_bundle bundle;
    std::string content = content_of(bundle.path() / weights);
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 4);
    write_file(bundle.path() / weights, content);
    bundle.refused({"verify", "diff"}, {weights + ": checksum "});
  }

  TEST_CASE("newer formats are told from damage") {
    damaged_bundle bundle;
    std::string manifest = content_of(bundle.path() / "MANIFEST");
    set_number(manifest, 8, std::uint32_t{99});
    seal(manifest, manifest.size() - 16);
    write_file(bundle.path() / "MANIFEST", manifest);
    bundle.refused(all_tools, {"MANIFEST: format 99, and this program reads format 1"});
    bundle.reset();
    bundle.rewrite(recovery, [](std::string& bytes) {
      set_number(bytes, 8, std::uint32_t{9});
      seal(bytes, 48);
    });
    bundle.refused(all_tools, {recovery + ": section format 9"});
    bundle.reset();
    bundle.rewrite(index_file, [](std::string& bytes) {
      set_number(bytes, 8, std::uint32_t{99});
      seal(bytes, 40);
    });
    bundle.refused(all_tools, {index_file + ": index format 99"});
  }

  TEST_CASE(
      "headers that claim 2^60 bytes cost no memory, and are refused with checksums that fit") {
    damaged_bundle bundle;
    bundle.rewrite(recovery, [](std::string& bytes) {
      set_number(bytes, 40, much);
      seal(bytes, 48);
    });
    bundle.refused(all_tools, {recovery + ": ", "says 1152921504606846976"});
    bundle.reset();
    bundle.rewrite(index_file, [](std::string& bytes) {
      set_number(bytes, 56 + 8, much); // The first chunk, behind the preamble.
      const auto sum = dataplane::checksum_of(bytes_of(bytes).subspan(56, 32));
      set_number(bytes, 56 + 32, sum.low);
      set_number(bytes, 56 + 40, sum.high);
    });
    bundle.refused(all_tools, {index_file + ": the header of chunk 0"});
    bundle.reset();
    bundle.rewrite(weights, [](std::string& bytes) { set_number(bytes, 0, much); });
    bundle.refused({"verify", "inspect"}, {weights + ": "});
  }

  TEST_CASE("a manifest that agrees with a file of terabytes costs no memory") {
    damaged_bundle bundle;
    constexpr std::uint64_t bytes = std::uint64_t{1} << 43U;
    std::error_code failed;
    fs::resize_file(bundle.path() / recovery, bytes, failed);
    if (failed) return; // This file system has no such files.
    const std::string old = content_of(bundle.path() / "MANIFEST");
    auto listed = dataplane::decode_manifest(bytes_of(old));
    REQUIRE(listed.has_value());
    for (auto& one : listed->files)
      if (one.path == recovery) one.bytes = bytes;
    const auto made = dataplane::encode_manifest(*listed);
    REQUIRE(made.has_value());
    write_file(bundle.path() / "MANIFEST",
               {reinterpret_cast<const char*>(made->data()), made->size()});
    bundle.refused({"inspect", "export"}, {recovery + ": has 8796093022208 bytes, more than "});
  }

  TEST_CASE("sections of nonsense with checksums that fit are refused by name") {
    damaged_bundle bundle;
    for (const std::string& file :
         {recovery, std::string("replay_buffer_metadata.fb"), std::string("train_dataloader.fb"),
          index_file, bundle.segment()}) {
      CAPTURE(file);
      for (const std::size_t kept : {std::size_t{0}, std::size_t{64}}) {
        bundle.reset();
        bundle.rewrite(file, [kept](std::string& bytes) {
          std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(std::min(kept, bytes.size())),
                    bytes.end(), '\xff');
        });
        bundle.refused(all_tools, {fs::path(file).filename().string() + ": "});
      }
      bundle.reset();
      bundle.rewrite(file, [](std::string& bytes) { bytes.clear(); });
      bundle.refused(all_tools, {fs::path(file).filename().string() + ": "});
    }
    bundle.reset();
    bundle.rewrite("policy/weights/config.json",
                   [](std::string& bytes) { std::ranges::fill(bytes, '['); });
    bundle.refused({"verify", "inspect"}, {"policy/weights/config.json: "});
  }

  TEST_CASE("what may not be read is named, with the system's words") {
    if (::getuid() != 0) return; // It takes another user.
    constexpr uid_t nobody = 65534;
    damaged_bundle bundle;
    fs::permissions(bundle.job().home(), fs::perms::others_exec | fs::perms::others_read,
                    fs::perm_options::add);
    for (const std::string& file : {std::string("MANIFEST"), index_file, recovery, weights}) {
      CAPTURE(file);
      bundle.reset();
      fs::permissions(bundle.path() / file, fs::perms::none);
      for (const char* tool : {"verify", "inspect"}) {
        const program_end end = run_program({tool, bundle.path().string()}, nobody);
        INFO(end.output);
        CHECK(end.exited_with(1));
        CHECK(end.says(file + ": cannot open: Permission denied"));
      }
    }
    bundle.reset();
    fs::permissions(bundle.path(), fs::perms::none);
    const program_end end = run_program({"verify", bundle.path().string()}, nobody);
    INFO(end.output);
    CHECK(end.exited_with(1));
    CHECK(end.says("MANIFEST: cannot open: Permission denied"));
  }

  TEST_CASE("what names no bundle is refused with the bundles that could be meant") {
    const damaged_bundle bundle;
    const small_job& job = bundle.job();
    for (const char* tool : {"verify", "inspect"}) {
      CAPTURE(std::string(tool));
      for (const fs::path& path : {job.run_directory(), job.checkpoints()}) {
        const program_end end = run_program({tool, path.string()});
        INFO(end.output);
        CHECK(end.exited_with(1));
        CHECK(end.says(path.string() + ": is no bundle, but has some; name one of them: step_4"));
      }
      for (const std::string& path : {job.config_path(), std::string("/dev/null")}) {
        const program_end end = run_program({tool, path});
        INFO(end.output);
        CHECK(end.exited_with(1));
        CHECK(end.says(path + ": is not a directory; name that of a bundle"));
      }
      const program_end missing = run_program({tool, (job.home() / "nowhere").string()});
      CHECK(missing.exited_with(1));
      CHECK(missing.says("nowhere: does not exist"));
      CHECK(run_program({tool, (job.checkpoints() / "latest").string()}).exited_with(0));
      CHECK(run_program({tool, job.bundle("step_4").string() + "/"}).exited_with(0));
    }
    fs::create_symlink("loop", job.home() / "loop");
    CHECK(run_program({"verify", (job.home() / "loop").string()})
              .says("loop: a link that leads nowhere"));
  }
}

} // namespace weir::test
