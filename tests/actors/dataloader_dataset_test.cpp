#include "actors/dataloader/dataset.hpp"
#include "messages/limits.hpp"

#include <doctest/doctest.h>

using namespace weir;

namespace {

result<dataset> parse(std::string content, dataset_options options = {}) {
  return dataset::parse("problems.jsonl", std::move(content), std::move(options));
}

std::string refusal(std::string content, dataset_options options = {}) {
  const auto made = parse(std::move(content), std::move(options));
  return made ? std::string("accepted") : made.error().text;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* two_lines = "{\"question\": \"3+4=\", \"answer\": \"7\"}\n"
                                  "{\"question\": \"2-2=\", \"answer\": \"0\"}\n";

} // namespace

TEST_SUITE_BEGIN("actors/dataloader/dataset");

TEST_CASE("records are read by line, with their place and a hash of their content") {
  const auto made = parse(two_lines);
  REQUIRE(made.has_value());
  CHECK(made->size() == 2);
  const dataset_record first = made->at(0);
  CHECK(first.prompt == "3+4=");
  CHECK(first.answer == "7");
  CHECK(first.task == "train");
  CHECK(first.hash == made->hash_at(0));
  CHECK(made->hash_at(0) != made->hash_at(1));
  CHECK(made->place_of(1) == "problems.jsonl:2");
}

TEST_CASE("mark, CRLF, blank lines and a missing final newline change nothing but line numbers") {
  const auto plain = parse(two_lines);
  const auto decorated = parse("\xEF\xBB\xBF{\"question\": \"3+4=\", \"answer\": \"7\"}\r\n\r\n  \n"
                               "{ \"answer\":\"0\",\"extra\":[1,{\"answer\":2}],"
                               "\"question\":\"2-2=\" }");
  REQUIRE(plain.has_value());
  REQUIRE(decorated.has_value());
  CHECK(decorated->size() == 2);
  CHECK(decorated->fingerprint() == plain->fingerprint());
  CHECK(decorated->at(1) == plain->at(1));
  CHECK(decorated->place_of(1) == "problems.jsonl:4");
}

TEST_CASE("a number is an answer, as it is written") {
  const auto made = parse("{\"question\": \"a\", \"answer\": 72}\n"
                          "{\"question\": \"b\", \"answer\": -3}\n"
                          "{\"question\": \"c\", \"answer\": 0.10}\n");
  REQUIRE(made.has_value());
  CHECK(made->at(0).answer == "72");
  CHECK(made->at(1).answer == "-3");
  CHECK(made->at(2).answer == "0.10");
}

TEST_CASE("the keys are the user's, and the answer may be left out on purpose") {
  const auto made = parse("{\"problem\": \"a\", \"solution\": \"x #### 72\"}",
                          {.input_key = "problem", .output_key = "solution", .task = "gsm8k"});
  REQUIRE(made.has_value());
  CHECK(made->at(0).answer == "x #### 72");
  CHECK(made->at(0).task == "gsm8k");
  const auto open_ended = parse("{\"question\": \"a\"}", {.output_key = std::nullopt});
  REQUIRE(open_ended.has_value());
  CHECK(open_ended->at(0).answer.empty());
  CHECK(mentions(refusal("{}", {.input_key = "a", .output_key = "a"}), "both \"a\""));
  CHECK(mentions(refusal("{}", {.input_key = ""}), "give both a name"));
}

TEST_CASE("a bad record is refused with file, line, reason and remedy") {
  const std::string good = "{\"question\": \"a\", \"answer\": \"b\"}\n";
  struct bad_line {
    const char* line;
    const char* reason;
  };
  const bad_line lines[] = {
      {"{\"question\": \"a\", \"answer\": \"b\"", "malformed JSON at byte 32"},
      {"{\"question\": \"a\", \"answer\": \"b\"} x", "malformed JSON"},
      {"{\"question\": \"a\" \"answer\": \"b\"}", "malformed JSON"},
      {"{\"question\": \"\xff\", \"answer\": \"b\"}", "UTF-8"},
      {"{\"question\": \"a\", \"answer\": 1e999}", "malformed JSON"},
      {"[1, 2]", "the line is an array; expected a JSON object"},
      {"\"text\"", "the line is a string"},
      {"7", "the line is a number"},
      {"null", "the line is null"},
      {"{\"question\": \"a\", \"reply\": \"b\"}",
       "no key \"answer\" (it has \"question\", \"reply\")"},
      {"{\"answer\": \"b\"}", "no key \"question\""},
      {"{}", "it has none"},
      {"{\"x\": {\"question\": \"a\"}, \"answer\": \"b\"}", "no key \"question\""},
      {"{\"question\": 7, \"answer\": \"b\"}", "\"question\" is a number; expected a string"},
      {"{\"question\": \"a\", \"answer\": null}", "\"answer\" is null; expected a string or"},
      {"{\"question\": \"a\", \"answer\": true}", "\"answer\" is a boolean"},
      {"{\"question\": \"a\", \"answer\": [\"b\"]}", "\"answer\" is an array"},
      {"{\"question\": {\"text\": \"a\"}, \"answer\": \"b\"}", "\"question\" is an object"},
      {"{\"question\": \"a\", \"question\": \"c\", \"answer\": \"b\"}", "stands twice"},
      {"{\"question\": \"\", \"answer\": \"b\"}", "\"question\" is empty"},
      {"{\"question\": \"a\", \"answer\": \"\"}", "\"answer\" is empty"},
  };
  for (const auto& [line, reason] : lines) {
    const std::string text = refusal(good + "\n" + line + "\n" + good);
    CAPTURE(text);
    CHECK(text.starts_with("problems.jsonl:3: "));
    CHECK(mentions(text, reason));
  }
}

TEST_CASE("a dataset without records is refused") {
  for (const char* content : {"", "\n\n", "\xEF\xBB\xBF", " \r\n"}) {
    const auto made = parse(content);
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().code == errc::not_found);
    CHECK(mentions(made.error().text, "problems.jsonl: the dataset is empty"));
  }
}

TEST_CASE("a line above the limit is refused with its length") {
  const std::string head = "{\"question\": \"";
  const std::string tail = "\", \"answer\": \"b\"}";
  const std::size_t room = limits::record_bytes_max - head.size() - tail.size();
  CHECK(parse(head + std::string(room, 'a') + tail).has_value());
  const std::string text = refusal(head + std::string(room + 1, 'a') + tail);
  CHECK(mentions(text, "problems.jsonl:1: the line has 16777217 bytes, the limit is 16777216"));
}

TEST_CASE("every prefix of a record is refused, and deep nesting does not exhaust the stack") {
  const std::string line = "{\"question\": \"a\\u00e9\", \"answer\": -1.5}";
  for (std::size_t length = 1; length < line.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(parse(line.substr(0, length)).has_value());
  }
  const std::string deep(1'000'000, '[');
  CHECK(mentions(refusal("{\"x\": " + deep), "malformed JSON"));
}

TEST_CASE("another text, order or number of records has another fingerprint") {
  const std::string first = "{\"question\": \"a\", \"answer\": \"b\"}\n";
  const std::string second = "{\"question\": \"c\", \"answer\": \"d\"}\n";
  const std::string moved = "{\"question\": \"ab\", \"answer\": \"d\"}\n";
  const std::string split = "{\"question\": \"a\", \"answer\": \"bd\"}\n";
  const auto fingerprint = [](const std::string& content) {
    const auto made = parse(content);
    REQUIRE(made.has_value());
    return to_string(made->fingerprint());
  };
  CHECK(fingerprint(first + second) == fingerprint(first + second));
  CHECK(fingerprint(first + second) != fingerprint(second + first));
  CHECK(fingerprint(first + second) != fingerprint(first));
  CHECK(fingerprint(first + first) != fingerprint(first));
  CHECK(fingerprint(moved) != fingerprint(split));
}

TEST_CASE("the hash of a record is part of the bundle format and never changes") {
  const auto made = parse(two_lines);
  REQUIRE(made.has_value());
  CHECK(to_string(made->hash_at(0)) == "112e081b22d15aef36f2615c4a568436");
  CHECK(to_string(made->fingerprint()) == "87661909a8e424b3d3bbc2b2fee7031e");
}

TEST_SUITE_END();
