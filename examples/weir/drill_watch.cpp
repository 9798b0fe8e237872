#include "examples/weir/drill_watch.hpp"

#include "examples/weir/step_metrics.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace weir {

namespace {

namespace fs = std::filesystem;

std::uintmax_t size_of(const fs::path& path) {
  std::error_code broken;
  const std::uintmax_t bytes = fs::file_size(path, broken);
  return broken ? 0 : bytes;
}

} // namespace

std::string_view to_string(life_stage stage) {
  switch (stage) {
  case life_stage::starting:
    return "starting";
  case life_stage::restoring:
    return "restoring";
  case life_stage::warming_up:
    return "warming up";
  case life_stage::first_step:
    return "running, before its first step";
  case life_stage::training:
    return "decoding and learning";
  case life_stage::writing:
    return "writing a bundle";
  case life_stage::publishing:
    return "publishing a bundle";
  }
  return "?";
}

life_watch::life_watch(std::string directory)
    : directory_(std::move(directory)), checkpoints_((fs::path(directory_) / "checkpoints")),
      incarnation_before_(incarnation()), began_with_(newest_bundle(checkpoints_)) {
  read_metrics(0); // What lives before this one left, a torn last line included.
  metrics_read_ = size_of(fs::path(directory_) / "metrics.jsonl");
  reported_.reset();
  reported_s_.reset();
  step_s_.reset();
}

life_sight life_watch::look(double now_s, double step_s) {
  read_metrics(now_s);
  life_sight sight;
  sight.step = step();
  sight.past_warmup = reported_ || bundle();
  sight.writing = !unfinished().empty();
  sight.step_s = step_s_.value_or(step_s);
  return sight;
}

life_stage life_watch::stage() {
  const std::uint64_t life = incarnation();
  const bool has_number = life != incarnation_before_;
  const fs::path events = fs::path(directory_) / ("events-" + std::to_string(life) + ".jsonl");
  std::error_code broken;
  if (!has_number) return life_stage::starting;
  if (!fs::exists(events, broken)) return life_stage::restoring;
  if (const std::string at = unfinished(); !at.empty())
    return fs::exists(fs::path(checkpoints_) / at / "MANIFEST", broken) ? life_stage::publishing
                                                                        : life_stage::writing;
  if (!bundle()) return life_stage::warming_up;
  return reported_ ? life_stage::training : life_stage::first_step;
}

std::uint64_t life_watch::step() const {
  return std::max(reported_.value_or(0), began_with_ ? began_with_->step : 0);
}

std::optional<bundle_name> life_watch::bundle() const {
  return newest_bundle(checkpoints_);
}

/// Takes the whole lines that came since the last call.
void life_watch::read_metrics(double now_s) {
  const fs::path path = fs::path(directory_) / "metrics.jsonl";
  const std::uintmax_t size = size_of(path);
  if (size <= metrics_read_) return;
  std::string lines(static_cast<std::size_t>(size - metrics_read_), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(metrics_read_));
  file.read(lines.data(), static_cast<std::streamsize>(lines.size()));
  lines.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  lines.resize(lines.rfind('\n') + 1); // npos + 1 = 0: no whole line yet.
  metrics_read_ += lines.size();
  std::string_view rest = lines;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (const auto metric = parse_step_metric(rest.substr(0, end))) {
      if (reported_s_) step_s_ = now_s - *reported_s_;
      reported_s_ = now_s;
      reported_ = metric->step;
    }
    rest.remove_prefix(end + 1);
  }
}

/// The number in INCARNATION; 0 if there is none.
std::uint64_t life_watch::incarnation() const {
  std::ifstream file(fs::path(directory_) / "INCARNATION");
  std::uint64_t number = 0;
  return file >> number ? number : 0;
}

/// The name of this life's unfinished bundle; empty if there is none.
std::string life_watch::unfinished() const {
  const std::uint64_t life = incarnation();
  if (life == incarnation_before_) return {}; // What lies there is of a life before.
  const std::string head = ".tmp-" + std::to_string(life) + "-";
  std::error_code broken;
  for (fs::directory_iterator at(checkpoints_, broken), end; !broken && at != end;
       at.increment(broken))
    if (std::string name = at->path().filename().string(); name.starts_with(head)) return name;
  return {};
}

} // namespace weir
