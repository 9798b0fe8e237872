#include "tests/tidy/rules.hpp"

#include "tests/tidy/statements.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace weir::tidy {

namespace {

constexpr std::size_t none = std::string_view::npos;
constexpr std::size_t file_lines_max = 600;
constexpr std::size_t columns_max = 100;

std::string_view top_folder(std::string_view path) {
  return path.substr(0, path.find('/'));
}

bool is_header(std::string_view path) {
  return path.ends_with(".hpp") || path.ends_with(".cuh");
}

/// Bytes that begin a character: the rest of a UTF-8 sequence has no column of its own.
std::size_t columns_of(std::string_view line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xc0U) != 0x80U;
  }));
}

bool matches(std::string_view path, std::span<const std::string_view> places) {
  return std::any_of(places.begin(), places.end(),
                     [path](std::string_view place) { return path.starts_with(place); });
}

/// A core decides without touching the machine. Threads of the kernels have their own files.
bool is_functional_core(std::string_view path) {
  constexpr std::array<std::string_view, 3> elsewhere = {"actors/runtime/", "kernels/parallel.",
                                                         "kernels/device"};
  const std::string_view folder = top_folder(path);
  if (matches(path, elsewhere)) return false;
  if (folder == "actors")
    return path.find("_state.") != none || path.starts_with("actors/dataloader/dataset.") ||
           path.starts_with("actors/environment/command_protocol.");
  if (folder == "dataplane")
    return !path.starts_with("dataplane/posix_") && !path.starts_with("dataplane/uring_disk.");
  return folder == "kernels";
}

/// What may not be included, empty if `target` is fine.
std::string refused_include(std::string_view path, std::string_view target) {
  const std::string_view from = top_folder(path);
  const std::string_view to = top_folder(target);
  if (path.starts_with("tests/install/")) return ""; // A program outside of this tree.
  if (target.find('/') == none) return "is not named from the root of the repository";
  const bool own = from == to;
  bool allowed = own;
  if (from == "kernels") allowed = own || target == "messages/error.hpp";
  if (from == "dataplane") allowed = own || to == "messages";
  if (from == "actors") allowed = own || to == "messages" || to == "dataplane" || to == "kernels";
  if (from == "examples" || from == "benchmarks")
    allowed = own || (to != "tests" && to != "examples");
  if (from == "tests") allowed = true;
  return allowed ? ""
                 : "points against the layers: " + std::string(from) + " may not know " +
                       std::string(to);
}

std::string refused_system_include(std::string_view path, std::string_view target) {
  constexpr std::array<std::string_view, 2> caf_places = {"actors/runtime/", "benchmarks/"};
  if (target.starts_with("caf/") && is_header(path))
    return "shows CAF to whoever includes this header; include it in a source";
  if (target == "caf/all.hpp") return "costs seconds in each file; include the narrow headers";
  if (target.starts_with("caf/") && !matches(path, caf_places))
    return "shows CAF outside of actors/runtime; use the runtime's types";
  if (target == "cassert" || target == "assert.h")
    return "brings assert, which a build can turn off; use ensure";
  if (!is_functional_core(path)) return "";
  for (const std::string_view machine : {"chrono", "thread", "filesystem", "fstream"})
    if (target == machine)
      return "ties a functional core to the machine; pass the value in instead";
  return "";
}

/// A call that is banned, except in some places.
struct banned_call {
  std::string_view text;
  bool whole_word;
  std::string_view instead;
  std::array<std::string_view, 6> allowed;
};

constexpr std::array<banned_call, 15> banned_calls = {{
    {"::now(",
     false,
     "ask the world for the time",
     {"actors/runtime/world.cpp", "benchmarks/", "examples/weir/drill_process.cpp"}},
    {"rand(", true, "draw from a counter-based generator", {}},
    {"random_device", true, "take the seed from the configuration", {}},
    {"sleep_for", true, "wait for what you wait for", {"actors/runtime/failpoint.cpp"}},
    {"sleep_until", true, "wait for what you wait for", {}},
    {"usleep", true, "wait for what you wait for", {}},
    {"nanosleep", true, "wait for what you wait for", {}},
    {"::sleep(", true, "wait for what you wait for", {}},
    {"throw", true, "return a failure, or call ensure", {}},
    {"assert(", true, "use ensure, which stays on", {}},
    {"std::thread",
     true,
     "offload, or use the device's stream",
     {"actors/runtime/blocking_pool.", "actors/environment/command_process.", "kernels/parallel.",
      "kernels/device_stream.", "tests/", "benchmarks/"}},
    {"std::jthread", true, "offload, or use the device's stream", {"tests/", "benchmarks/"}},
    {"std::async", true, "offload", {}},
    {".detach(", false, "spawn in a scope", {}},
    {"caf/all.hpp", false, "include the narrow headers", {}},
}};

std::size_t find_call(std::string_view code, const banned_call& call, std::size_t from) {
  for (std::size_t at = code.find(call.text, from); at != none; at = code.find(call.text, at + 1)) {
    const std::size_t end = at + call.text.size();
    if (code.substr(end).starts_with(") const")) continue; // Defines a member of that name.
    if (!call.whole_word) return at;
    const bool begins = at == 0 || !is_word(code[at - 1]);
    const bool ends = !is_word(call.text.back()) || end >= code.size() || !is_word(code[end]);
    if (begins && ends) return at;
  }
  return none;
}

/// The offset after the bracket that closes the one at `open`.
std::size_t after_closing(std::string_view code, std::size_t open, char opening, char closing) {
  std::size_t depth = 0;
  for (std::size_t at = open; at < code.size(); ++at) {
    if (code[at] == opening) ++depth;
    // An arrow closes nothing.
    if (code[at] == closing && (closing != '>' || code[at - 1] != '-') && --depth == 0)
      return at + 1;
  }
  return none;
}

/// The parameters of the coroutine whose return type begins at `at`; empty if it is no declaration.
std::string_view coroutine_parameters(std::string_view code, std::size_t at) {
  const std::size_t type_end = after_closing(code, code.find('<', at), '<', '>');
  if (type_end == none) return {};
  std::size_t name = code.find_first_not_of(" \n", type_end);
  if (name == none || !is_word(code[name])) return {};
  while (name < code.size() && (is_word(code[name]) || code[name] == ':'))
    ++name;
  if (name >= code.size() || code[name] != '(') return {};
  const std::size_t end = after_closing(code, name, '(', ')');
  return end == none ? std::string_view() : code.substr(name + 1, end - name - 2);
}

/// One parameter, without what is a service that outlives the coroutine by contract.
std::string_view banned_in(std::string_view parameter) {
  for (const std::string_view service : {"scope&", "world&"})
    if (parameter.find(service) != none) return "";
  for (const std::string_view view : {"string_view", "span<", "&"})
    if (parameter.find(view) != none) return view;
  return "";
}

} // namespace

std::vector<finding> check_layout(const source_file& file) {
  std::vector<finding> found;
  const auto lines = lines_of(file.text);
  if (lines.size() > file_lines_max)
    found.push_back({file.path, 0,
                     std::to_string(lines.size()) + " lines; split the file at " +
                         std::to_string(file_lines_max)});
  for (std::size_t index = 0; index < lines.size(); ++index) {
    const std::string_view line = lines[index];
    const std::size_t columns = columns_of(line);
    if (columns > columns_max)
      found.push_back({file.path, index + 1,
                       "a line of " + std::to_string(columns) + " columns; break it at 100"});
    if (line.ends_with(' ') || line.ends_with('\t') || line.ends_with('\r'))
      found.push_back({file.path, index + 1, "white space at the end of the line; remove it"});
    // Put together from parts, so that this file does not find itself.
    for (const std::string_view mark : {"FIX"
                                        "ME",
                                        "XX"
                                        "X"})
      if (find_word(line, mark) != none)
        found.push_back({file.path, index + 1,
                         "an open " + std::string(mark) + "; solve it, or file an issue"});
  }
  if (!file.text.empty() && !file.text.ends_with('\n'))
    found.push_back({file.path, lines.size(), "no newline at the end; add it"});
  if (is_header(file.path)) {
    if (file.text.find("#pragma once") == none)
      found.push_back({file.path, 0, "no #pragma once; add it below the file's comment"});
    const std::string code = code_of(file.text);
    if (const std::size_t at = code.find("using namespace "); at != none)
      found.push_back(
          {file.path, line_of(code, at), "using namespace in a header; name each thing"});
  }
  const std::string_view path = file.path;
  const std::string_view stem = path.substr(path.rfind('/') + 1);
  for (const std::string_view word :
       {"util", "utils", "helper", "helpers", "manager", "misc", "common", "fast", "new"}) {
    std::string spaced(stem.substr(0, stem.find('.')));
    std::replace(spaced.begin(), spaced.end(), '_', ' ');
    if (find_word(spaced, word) != none)
      found.push_back({file.path, 0,
                       "the name says \"" + std::string(word) + "\"; name what the file is about"});
  }
  return found;
}

std::vector<finding> check_includes(const source_file& file) {
  std::vector<finding> found;
  const auto lines = lines_of(file.text);
  for (std::size_t index = 0; index < lines.size(); ++index) {
    std::string_view line = lines[index];
    if (!line.starts_with('#')) continue;
    line.remove_prefix(std::min(line.find_first_not_of(" \t", 1), line.size()));
    if (!line.starts_with("include")) continue;
    const std::size_t open = line.find_first_of("\"<");
    if (open == none) continue;
    const std::size_t close = line.find_first_of("\">", open + 1);
    if (close == none) continue;
    const std::string_view target = line.substr(open + 1, close - open - 1);
    const std::string reason = line[open] == '"' ? refused_include(file.path, target)
                                                 : refused_system_include(file.path, target);
    if (!reason.empty())
      found.push_back(
          {file.path, index + 1, "the include of " + std::string(target) + " " + reason});
  }
  return found;
}

std::vector<finding> check_calls(const source_file& file) {
  std::vector<finding> found;
  const std::string code = code_of(file.text);
  for (const banned_call& call : banned_calls) {
    const auto used = std::find(call.allowed.begin(), call.allowed.end(), std::string_view());
    const std::span<const std::string_view> places(call.allowed.begin(), used);
    if (matches(file.path, places)) continue;
    for (std::size_t at = find_call(code, call, 0); at != none; at = find_call(code, call, at + 1))
      found.push_back({file.path, line_of(code, at),
                       std::string(call.text) + " is banned here; " + std::string(call.instead)});
  }
  return found;
}

std::vector<finding> check_signatures(const source_file& file) {
  std::vector<finding> found;
  if (file.path.starts_with("tests/compile_fail/")) return found; // Wrong on purpose.
  const std::string code = code_of(file.text);
  for (std::size_t at = find_word(code, "task"); at != none; at = find_word(code, "task", at + 1)) {
    if (at + 4 >= code.size() || code[at + 4] != '<') continue;
    std::string_view parameters = coroutine_parameters(code, at);
    while (!parameters.empty()) {
      const std::size_t comma = std::min(parameters.find(','), parameters.size());
      if (const std::string_view banned = banned_in(parameters.substr(0, comma)); !banned.empty())
        found.push_back({file.path, line_of(code, at),
                         "a coroutine takes \"" + std::string(banned) +
                             "\"; take parameters by value, they may outlive the caller's"});
      parameters.remove_prefix(std::min(comma + 1, parameters.size()));
    }
  }
  return found;
}

std::vector<finding> check_statements(const source_file& file) {
  const std::string code = code_of(file.text);
  std::vector<finding> found = long_functions(file, code);
  const std::vector<finding> awaiting = awaiting_statements(file, code);
  found.insert(found.end(), awaiting.begin(), awaiting.end());
  return found;
}

std::vector<finding> check_file(const source_file& file) {
  std::vector<finding> found = check_layout(file);
  for (const auto check : {check_includes, check_calls, check_signatures, check_statements}) {
    const std::vector<finding> more = check(file);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

} // namespace weir::tidy
