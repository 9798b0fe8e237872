/// weir-sim: the main job in a simulated world, crashed and restarted, seed after seed.
///
///     weir-sim --seed 7                 one seed; prints its trace hash, the same every time
///     weir-sim --seeds 1..2000          a sweep, on both cores; exit code 1 if one does not hold
///     weir-sim --seeds 1..60 --without gate_rechecked_under_lease
///                                       exit code 0 if a seed notices that the rule is off
///     weir-sim --seeds 1..60 --without gate_rechecked_under_lease --until 5
///                                       exit code 0 if five do
///     weir-sim --seeds 1..100 --samplers ./libmine.so:my_sampler
///                                       a sampler of a user's own, out of a shared object
#include "tests/simulation/crashing_run.hpp"
#include "tests/simulation/sweep.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace weir::sim;

constexpr const char* usage = "usage: weir-sim --seed N | --seeds A..B [--jobs J]\n"
                              "                [--crashes N] [--samplers NAME|FILE:SYMBOL,...]\n"
                              "                [--without RULE,RULE... [--until SEEDS]]\n"
                              "rules:";

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "3..17", or "3".
bool parse_range(std::string_view text, sweep_options& sweep) {
  const std::size_t dots = text.find("..");
  const auto first = number(text.substr(0, dots));
  const auto last = dots == std::string_view::npos ? first : number(text.substr(dots + 2));
  if (!first || !last || *first > *last) return false;
  sweep.first = *first;
  sweep.last = *last;
  return true;
}

/// The parts of "a,b,c".
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

bool parse_samplers(std::string_view text, run_options& run) {
  run.samplers = parts_of(text);
  return !run.samplers.empty() && std::ranges::all_of(run.samplers, [](const std::string& name) {
    return name.find(':') != std::string::npos ||
           std::ranges::find(all_samplers(), name) != all_samplers().end();
  });
}

bool parse_rules(std::string_view text, run_options& run) {
  for (const std::string& name : parts_of(text)) {
    const auto found = weir::rule_named(name);
    if (!found) return false;
    run.without.push_back(*found);
  }
  return true;
}

bool parse(std::string_view key, std::string_view value, sweep_options& sweep) {
  if (key == "--seed") sweep.one = true;
  if (key == "--seed" || key == "--seeds") return parse_range(value, sweep);
  if (key == "--samplers") return parse_samplers(value, sweep.run);
  if (key == "--without") return parse_rules(value, sweep.run);
  if (key == "--crashes") return (sweep.run.crashes = number(value)).has_value();
  if (key == "--until") {
    sweep.until = number(value).value_or(0);
    return sweep.until > 0;
  }
  if (key == "--jobs") {
    const auto jobs = number(value);
    sweep.jobs = static_cast<unsigned>(std::clamp<std::uint64_t>(jobs.value_or(0), 1, 64));
    return jobs.has_value();
  }
  return false;
}

} // namespace

int main(int argc, char** argv) {
  sweep_options sweep;
  bool good = argc > 1 && argc % 2 == 1;
  for (int i = 1; good && i + 1 < argc; i += 2)
    good = parse(argv[i], argv[i + 1], sweep);
  if (!good) {
    std::fputs(usage, stderr);
    for (const weir::rule one : weir::all_rules())
      std::fprintf(stderr, " %s", std::string(weir::to_string(one)).c_str());
    std::fputs("\n", stderr);
    return 2;
  }
  return sweep.one ? run_one(sweep) : run_sweep(sweep);
}
