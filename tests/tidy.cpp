/// The style test: every rule on planted bad text, then on the tree itself.
#include "tests/tidy/rules.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace weir::tidy;

namespace {

/// The lines on which a rule finds something.
std::vector<std::size_t> lines(const std::vector<finding>& found) {
  std::vector<std::size_t> numbers;
  for (const finding& one : found)
    numbers.push_back(one.line);
  return numbers;
}

bool advises(const std::vector<finding>& found, std::string_view text) {
  return std::any_of(found.begin(), found.end(), [text](const finding& one) {
    return one.advice.find(text) != std::string::npos;
  });
}

bool accepts(const std::vector<finding>& found) {
  for (const finding& one : found)
    MESSAGE(to_string(one));
  return found.empty();
}

/// A coroutine with one statement in its body.
std::vector<finding> awaiting(const std::string& statement) {
  return check_statements({"actors/a.cpp", "task<void> a::run(int x) {\n  " + statement + "\n}\n"});
}

std::vector<finding> including(const std::string& path, const std::string& target) {
  return check_includes({path, "#include " + target + "\n"});
}

std::vector<finding> calling(const std::string& path, const std::string& statement) {
  return check_calls({path, "void f() { " + statement + "; }\n"});
}

/// All text files below the root, without what is built.
std::vector<source_file> read_tree(const std::filesystem::path& root) {
  std::vector<source_file> files;
  for (const char* folder :
       {"messages", "kernels", "dataplane", "actors", "examples", "benchmarks", "tests", "."}) {
    const bool top = std::string_view(folder) == ".";
    auto at = std::filesystem::recursive_directory_iterator(root / folder);
    for (const auto& entry : at) {
      if (top) at.disable_recursion_pending();
      const std::filesystem::path& path = entry.path();
      const bool text = path.extension() == ".cpp" || path.extension() == ".hpp" ||
                        path.extension() == ".cu" || path.extension() == ".cuh" ||
                        path.extension() == ".md" || path.filename() == "meson.build";
      if (!entry.is_regular_file() || !text) continue;
      std::ifstream file(path, std::ios::binary);
      std::ostringstream bytes;
      bytes << file.rdbuf();
      files.push_back({path.lexically_relative(root).generic_string(), bytes.str()});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const auto& left, const auto& right) { return left.path < right.path; });
  return files;
}

} // namespace

TEST_SUITE_BEGIN("tidy");

TEST_CASE("comments and literals are no code, and lines stay where they are") {
  CHECK(code_of("a // throw\nb") == "a         \nb");
  CHECK(code_of("a /* x\ny */ b") == "a     \n     b");
  CHECK(code_of("f(\"a\\\"b\") + 'c' + 1'000") == "f(\"    \") + ' ' + 1'000");
  CHECK(code_of("R\"x(a\"\n)x\" b") == "R\"    \n  \" b");
  CHECK(code_of("\"open\nb") == "\"    \nb");
}

TEST_CASE("layout: length, width, white space, marks, guards and names") {
  std::string longest;
  for (int line = 0; line < 601; ++line)
    longest += "//\n";
  CHECK(advises(check_layout({"actors/a.cpp", longest}), "601 lines"));
  CHECK(lines(check_layout({"a.cpp", "int a;\n" + std::string(101, 'x') + "\n"})) ==
        std::vector<std::size_t>{2});
  CHECK(accepts(check_layout({"a.cpp", "// " + std::string(94, 'x') + "├──\n"})));
  CHECK(lines(check_layout({"a.cpp", "int a; \nint b;\t\nint c;\r\n"})) ==
        std::vector<std::size_t>{1, 2, 3});
  CHECK(advises(check_layout({"a.cpp", "int a;"}), "no newline"));
  CHECK(advises(check_layout({"a.cpp", std::string("// FIX") + "ME later\n"}), "solve it"));
  CHECK(advises(check_layout({"a.hpp", "int a;\n"}), "#pragma once"));
  CHECK(advises(check_layout({"a.hpp", "#pragma once\nusing namespace std;\n"}), "name each"));
  CHECK(advises(check_layout({"actors/string_utils.hpp", "#pragma once\n"}), "\"utils\""));
  CHECK(accepts(check_layout({"actors/breakfast.hpp", "#pragma once\nint a;\n"})));
}

TEST_CASE("includes: layers point one way, CAF is hidden, cores touch no machine") {
  CHECK(advises(including("messages/a.hpp", "\"dataplane/b.hpp\""), "against the layers"));
  CHECK(advises(including("kernels/a.hpp", "\"messages/ids.hpp\""), "against the layers"));
  CHECK(accepts(including("kernels/a.hpp", "\"messages/error.hpp\"")));
  CHECK(advises(including("dataplane/a.hpp", "\"kernels/b.hpp\""), "against the layers"));
  CHECK(advises(including("dataplane/a.hpp", "\"actors/b.hpp\""), "against the layers"));
  CHECK(accepts(including("actors/a.hpp", "\"kernels/b.hpp\"")));
  CHECK(advises(including("actors/a.hpp", "\"examples/weir/b.hpp\""), "against the layers"));
  CHECK(advises(including("examples/weir/a.hpp", "\"tests/b.hpp\""), "against the layers"));
  CHECK(advises(including("actors/a.hpp", "\"b.hpp\""), "from the root"));
  CHECK(advises(including("actors/a.cpp", "<caf/actor.hpp>"), "shows CAF"));
  CHECK(advises(including("tests/actors/a.cpp", "<caf/actor.hpp>"), "shows CAF"));
  CHECK(accepts(including("actors/runtime/a.cpp", "<caf/actor.hpp>")));
  CHECK(advises(including("actors/runtime/a.hpp", "<caf/actor.hpp>"), "shows CAF"));
  CHECK(advises(including("actors/runtime/a.cpp", "<caf/all.hpp>"), "narrow"));
  CHECK(advises(including("tests/a.cpp", "<cassert>"), "ensure"));
  for (const char* machine : {"<chrono>", "<thread>", "<filesystem>", "<fstream>"}) {
    CAPTURE(machine);
    CHECK(advises(including("actors/sampler/sampler_state.hpp", machine), "core"));
    CHECK(advises(including("dataplane/store.cpp", machine), "core"));
    CHECK(advises(including("kernels/matmul.cpp", machine), "core"));
    CHECK(accepts(including("actors/sampler/sampler.hpp", machine)));
    CHECK(accepts(including("dataplane/posix_disk.cpp", machine)));
  }
}

TEST_CASE("calls: what only one file may do is found everywhere else") {
  for (const char* call :
       {"auto t = std::chrono::steady_clock::now()", "int r = rand()", "std::random_device d",
        "std::this_thread::sleep_for(s)", "usleep(1)", "::sleep(1)", "throw 1", "assert(x)",
        "std::thread t(f)", "std::async(f)", "t.detach()"}) {
    CAPTURE(call);
    CHECK(check_calls({"actors/a.cpp", std::string("\nvoid f() { ") + call + "; }\n"}).size() == 1);
    CHECK(lines(calling("actors/a.cpp", call)) == std::vector<std::size_t>{1});
  }
  CHECK(accepts(calling("actors/runtime/world.cpp", "auto t = steady_clock::now()")));
  CHECK(accepts(check_calls({"actors/a.cpp", "time_point a::now() const { return at_; }\n"})));
  CHECK(accepts(calling("kernels/parallel.cpp", "std::thread t(f)")));
  CHECK(
      accepts(calling("actors/a.cpp", "static_assert(x); operand(); rethrow(); state::sleep(1)")));
  CHECK(accepts(calling("actors/a.cpp", "log(\"throw assert( rand(\") /* std::thread */")));
}

TEST_CASE("signatures: a coroutine takes no reference and no view") {
  const auto signature = [](const std::string& text) {
    return check_signatures({"actors/a.hpp", text + "\n"});
  };
  CHECK(advises(signature("task<void> run(const std::string& name);"), "by value"));
  CHECK(advises(signature("task<result<int>> a::run(int x, std::string_view name) {"), "by value"));
  CHECK(advises(signature("weir::task<void> run(\n    std::span<const int> x);"), "by value"));
  CHECK(signature("task<void> run(int& a, int&& b);").size() == 2);
  CHECK(accepts(signature("task<void> run(std::string name, std::vector<int> x, scope& open);")));
  CHECK(accepts(signature("plain run(task<void>&& work, const int& x);")));
  CHECK(accepts(signature("using work = task<void>; template <class T> class task<T&>;")));
}

TEST_CASE("statements: nothing that g++ 12 miscompiles stands beside a co_await") {
  for (const char* bad : {
           "co_await awaiter{sp, 1};",
           "co_await f({sp, 1});",
           "auto x = co_await f(options{.a = 1});",
           "co_await [sp]() -> task<void> { co_return; }();",
           "co_await f([&] { return 1; });",
           "auto x = y ? co_await f() : 0;",
           "auto x = co_await f(co_await g());",
           "auto [a, b] = co_await f();",
           "const auto& [a, b] = co_await f();",
           "if (auto x = T{1}; co_await f()) { g(); }",
           "co_return co_await f({1});",
           "g(T{1}, co_await f());",
       }) {
    CAPTURE(bad);
    CHECK(advises(awaiting(bad), "a statement with co_await holds"));
  }
  for (const char* good : {
           "co_await f(x);",
           "auto x = co_await f(y[1], g(2));",
           "co_return co_await f();",
           "while (auto item = co_await stream.next()) { use({1}); }",
           "if (co_await f()) { g([] { return 1; }); } else { h(x ? 1 : 2); }",
           "auto f = [x] { return x; }; co_await g(f);",
           "T t{1}; co_await f(std::move(t));",
           "for (auto& x : {1, 2}) { co_await f(x); }",
           "switch (x) { case 1: { co_await f(); break; } default: co_await g(); }",
           "auto l = []() -> task<void> { co_await f(); }; use(l);",
       }) {
    CAPTURE(good);
    CHECK(accepts(awaiting(good)));
  }
}

TEST_CASE("statements: a function of more than 70 lines is found, a long class is not") {
  std::string body;
  for (int line = 0; line < 69; ++line)
    body += "  f(1);\n";
  const auto check = [](const std::string& text) {
    return check_statements({"actors/a.cpp", text});
  };
  const std::string tail = "}\n";
  CHECK(accepts(check("void g() {\n" + body.substr(8) + tail)));
  CHECK(lines(check("\nint g(int x) const {\n" + body + "  f(2);\n" + tail)) ==
        std::vector<std::size_t>{2});
  CHECK(accepts(check("namespace a {\nclass b {\n" + body + "};\n}\n")));
  CHECK(check("struct a : b {\n  a() : c_{1} {\n" + body + "  f(2);\n  }\n};\n").size() == 1);
  CHECK(accepts(check("TEST_SUITE(\"a\") {\nTEST_CASE(\"b\") {\n}\n" + body + body + tail)));
  CHECK(check("TEST_CASE(\"x\") {\n" + body + "  if (x) {\n  }\n" + tail).size() == 1);
}

TEST_CASE("tree: one resume, listed sources, explained folders, true snippets") {
  const source_file build{"actors/meson.build", "files('a.cpp', 'b/c.cpp')\n"};
  const source_file readme{"actors/README.md", "x\n"};
  const source_file one{"actors/a.cpp", "void f() { h.resume(); }\n"};
  CHECK(accepts(check_tree({build, readme, one})));
  const source_file two{"actors/d.cpp", "void f() { h.resume(); }\n"};
  CHECK(advises(check_tree({build, readme, one, two}), "one of several .resume()"));
  CHECK(advises(check_tree({build, readme, two}), "no meson.build lists"));
  const source_file loop{"actors/b/meson.build", "'ops_' + level, ['avx2']\n'../a.cpp'\n"};
  CHECK(accepts(check_tree({loop, readme, one})));
  CHECK(accepts(check_tree({loop, readme, {"actors/ops_avx2.cpp", ""}})));
  CHECK(advises(check_tree({loop, readme, {"actors/ops_avx.cpp", ""}}), "no meson.build lists"));
  CHECK(advises(check_tree({build, one}), "no README.md"));
  CHECK(advises(check_tree({build, readme, {"actors/b/c.cpp", ""}}), "no README.md"));
  CHECK(accepts(check_tree({build, readme, {"actors/b/c.cpp", ""}, {"actors/b/README.md", ""}})));

  const source_file example{"examples/a.hpp", "  // [readme:x]\n  int a;\n\n  // [end]\n"};
  const std::string head = "<!-- [readme:x] examples/a.hpp -->\n```cpp\n";
  const source_file around{"examples/README.md", "x\n"};
  CHECK(accepts(check_tree({{"README.md", head + "int a;\n\n```\n"}, example, around})));
  CHECK(advises(check_tree({{"README.md", head + "int b;\n```\n"}, example, around}), "differs"));
  CHECK(advises(check_tree({{"README.md", head + "int a;\n```\n"}}), "has no region"));
  CHECK(advises(check_tree({{"README.md", "```cpp\nint a;\n```\n"}}), "nobody compiles"));
}

TEST_CASE("tree: a source begins with its own header, and the files with CAF are listed") {
  const source_file build{"actors/meson.build", "'a.cpp'\n"};
  const source_file explained{"actors/README.md", "x\n"};
  const source_file header{"actors/a.hpp", "#pragma once\n"};
  const source_file right{"actors/a.cpp", "/// A.\n#include \"actors/a.hpp\"\n#include <b>\n"};
  const source_file wrong{"actors/a.cpp", "#include <b>\n#include \"actors/a.hpp\"\n"};
  CHECK(accepts(check_tree({build, explained, header, right})));
  CHECK(advises(check_tree({build, explained, header, wrong}), "its own header first"));

  const source_file list{"actors/runtime/README.md",
                         "- `b.cpp`\n## CAF\n- `actors/a.cpp`: it\n## More\n- `d.cpp`\n"};
  const source_file seam{"actors/a.cpp", "#include <caf/actor.hpp>\n"};
  CHECK(accepts(check_caf({list, seam})));
  CHECK(advises(check_caf({list, seam, {"actors/b.cpp", seam.text}}), "does not list it"));
  CHECK(advises(check_caf({list}), "lists actors/a.cpp"));
}

TEST_CASE("tree: the cases that the acceptance table names exist") {
  const source_file cases{"tests/a_test.cpp", "TEST_CASE"
                                              "(\"it holds\") {}\n"};
  const auto table = [](const std::string& row) {
    return source_file{"tests/ACCEPTANCE.md", "`free text`\n| behaviour | " + row + " |\n"};
  };
  CHECK(accepts(check_acceptance({cases, table("`it holds`")})));
  CHECK(advises(check_acceptance({cases, table("not yet")}), "names no test case"));
  CHECK(advises(check_acceptance({cases, table("`it holds`, `it lasts`")}), "\"it lasts\""));
}

TEST_CASE("the tree keeps every rule") {
  const char* root = std::getenv("WEIR_SOURCE_ROOT");
  REQUIRE_MESSAGE(root != nullptr, "run this test by meson test, which says where the sources are");
  const std::vector<source_file> files = read_tree(root);
  REQUIRE(files.size() > 20);
  std::vector<finding> found = check_tree(files);
  for (const source_file& file : files) {
    if (file.path.ends_with(".md") || file.path.ends_with("meson.build")) continue;
    const std::vector<finding> more = check_file(file);
    found.insert(found.end(), more.begin(), more.end());
  }
  for (const finding& one : found)
    MESSAGE(to_string(one));
  CHECK(found.empty());
}

TEST_SUITE_END();
