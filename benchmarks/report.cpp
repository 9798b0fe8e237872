#include "benchmarks/report.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace weir::benchmarks {

namespace {

using clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

/// Nothing against nothing is even: a count that must be zero has zero as its baseline.
double ratio_of(double ours, double baseline) {
  return ours == 0.0 && baseline == 0.0 ? 1.0 : ours / baseline;
}

/// Processor model and number of hardware threads, as "Intel(R) Xeon(R) Processor x 2".
std::string machine() {
  std::string name = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      name = line.substr(colon + 2);
      break;
    }
  }
  name += " x ";
  return name + std::to_string(sysconf(_SC_NPROCESSORS_ONLN));
}

/// The commit of the working directory; "unknown" outside a repository.
std::string commit() {
  FILE* const pipe = popen("git rev-parse --short=12 HEAD 2>/dev/null", "r");
  if (pipe == nullptr) return "unknown";
  char text[64] = {};
  const std::size_t read = std::fread(text, 1, sizeof(text) - 1, pipe);
  pclose(pipe);
  std::string id(text, read);
  while (!id.empty() && id.back() == '\n')
    id.pop_back();
  return id.empty() ? "unknown" : id;
}

std::string quoted(const std::string& text) {
  std::string result(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

/// A JSON number; null where there is none.
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

void write_row(std::ostream& out, const row& one, const std::string& where, const std::string& id) {
  const bool measured = one.skipped.empty();
  const auto field = [&](const char* key, const std::string& value) {
    out << ", \"" << key << "\": " << value;
  };
  const auto figure = [&](double value) { return measured ? number(value) : std::string("null"); };
  out << "  {\"claim\": " << quoted(one.what.text);
  field("unit", quoted(one.what.unit));
  field("ours", figure(one.ours));
  field("baseline", figure(one.baseline));
  field("baseline_name", quoted(one.what.baseline_name));
  field("ratio_median", figure(one.ratio_median));
  field("ratio_min", figure(one.ratio_min));
  field("ratio_max", figure(one.ratio_max));
  field("target", number(one.what.target));
  field("holds", one.holds ? "true" : "false");
  field("machine", quoted(where));
  field("commit", quoted(id));
  if (!measured) field("skipped", quoted(one.skipped));
  out << '}';
}

void print_row(const row& one) {
  std::printf("%-58s ", one.what.text.c_str());
  if (!one.skipped.empty()) {
    std::printf("skipped: %s\n", one.skipped.c_str());
    return;
  }
  std::printf("%10.4g %10.4g %-10s %6.2f (%.2f .. %.2f)  %s %.2f  %s\n", one.ours, one.baseline,
              one.what.unit.c_str(), one.ratio_median, one.ratio_min, one.ratio_max,
              one.what.direction == better::higher ? ">=" : "<=", one.what.target,
              one.holds ? "holds" : "DOES NOT HOLD");
}

} // namespace

row compare(claim what, const measurement& ours, const measurement& baseline, std::size_t turns) {
  turns = std::max<std::size_t>(turns, 7);
  static_cast<void>(ours());
  static_cast<void>(baseline());
  std::vector<double> mine, theirs, ratios;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    if (turn % 2 == 0) mine.push_back(ours());
    theirs.push_back(baseline());
    if (turn % 2 == 1) mine.push_back(ours());
    ratios.push_back(ratio_of(mine.back(), theirs.back()));
  }
  row result;
  result.ours = median(mine);
  result.baseline = median(theirs);
  result.ratio_median = median(ratios);
  result.ratio_min = *std::min_element(ratios.begin(), ratios.end());
  result.ratio_max = *std::max_element(ratios.begin(), ratios.end());
  result.holds = what.direction == better::higher ? result.ratio_median >= what.target
                                                  : result.ratio_median <= what.target;
  result.what = std::move(what);
  return result;
}

row skip(claim what, std::string reason) {
  row result;
  result.what = std::move(what);
  result.skipped = std::move(reason);
  return result;
}

double calls_per_second(const std::function<void()>& work, double seconds) {
  const clock::time_point start = clock::now();
  std::size_t calls = 0;
  double elapsed = 0.0;
  while (elapsed < seconds) {
    work();
    ++calls;
    elapsed = std::chrono::duration<double>(clock::now() - start).count();
  }
  return static_cast<double>(calls) / elapsed;
}

double seconds_of(const std::function<void()>& work) {
  const clock::time_point start = clock::now();
  work();
  return std::chrono::duration<double>(clock::now() - start).count();
}

int publish(const std::vector<row>& rows, const std::string& path) {
  std::printf("%-58s %10s %10s %-10s ratio (min .. max)  target\n", "claim", "ours", "baseline",
              "unit");
  for (const row& one : rows)
    print_row(one);
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  std::ofstream out(path);
  const std::string where = machine();
  const std::string id = commit();
  out << "[\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    write_row(out, rows[i], where, id);
    out << (i + 1 < rows.size() ? ",\n" : "\n");
  }
  out << "]\n";
  out.close();
  if (!out) {
    std::fprintf(stderr, "%s: cannot be written; choose another path\n", path.c_str());
    return 1;
  }
  return 0;
}

} // namespace weir::benchmarks
