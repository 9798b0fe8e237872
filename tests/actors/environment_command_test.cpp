#include "actors/environment/command_protocol.hpp"

#include <doctest/doctest.h>

using namespace weir;

namespace {

std::string refusal(std::string_view line) {
  const auto reply = parse_command_reply(line);
  if (!reply) return reply.error().text;
  return reply->refusal.empty() ? std::string("accepted") : reply->refusal;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_SUITE_BEGIN("actors/environment/command_protocol");

TEST_CASE("a request is one line of JSON with its keys in order") {
  const command_request request{
      .id = 7, .prompt = "3+4=\n", .answer = "7", .completion = "\"7\"\n"};
  CHECK(encode(request) ==
        "{\"id\":7,\"prompt\":\"3+4=\\n\",\"answer\":\"7\",\"completion\":\"\\\"7\\\"\\n\"}\n");
}

TEST_CASE("bytes that are not UTF-8 leave as the replacement character") {
  const command_request request{.id = 1, .prompt = "p", .answer = "a", .completion = "x\xff"};
  CHECK(mentions(encode(request), "x\xEF\xBF\xBD"));
}

TEST_CASE("a reply is read with and without its optional keys") {
  const auto whole = parse_command_reply(
      "{\"id\": 7, \"reward\": 0.5, \"done\": false, \"observation\": \"go on\", \"x\": 1}\r\n");
  REQUIRE(whole.has_value());
  CHECK(*whole == command_reply{.id = 7, .reward = 0.5, .done = false, .observation = "go on"});
  const auto brief = parse_command_reply("{\"id\": 8, \"reward\": 1}");
  REQUIRE(brief.has_value());
  CHECK(*brief == command_reply{.id = 8, .reward = 1.0});
  CHECK(parse_command_reply("{\"id\": 8, \"reward\": 1, \"observation\": null}").has_value());
}

TEST_CASE("a line that is no reply is refused with the reason and the line") {
  CHECK(mentions(refusal("Loading model..."), "malformed JSON"));
  CHECK(mentions(refusal("Loading model..."), "got: Loading model"));
  CHECK(mentions(refusal("[1]"), "not an object"));
  CHECK(mentions(refusal("{\"reward\": 1}"), "\"id\""));
  CHECK(mentions(refusal("{\"id\": -1, \"reward\": 1}"), "\"id\""));
  CHECK(mentions(refusal("{\"id\": \"1\", \"reward\": 1}"), "\"id\""));
  CHECK(mentions(refusal(""), "malformed JSON"));
}

TEST_CASE("a reply whose request is known refuses that request alone") {
  CHECK(mentions(refusal("{\"id\": 1}"), "\"reward\""));
  CHECK(mentions(refusal("{\"id\": 1, \"reward\": \"1\"}"), "\"reward\""));
  CHECK(mentions(refusal("{\"id\": 1, \"reward\": 1, \"done\": 1}"), "\"done\""));
  CHECK(mentions(refusal("{\"id\": 1, \"reward\": 1, \"observation\": 1}"), "\"observation\""));
}

TEST_CASE("numbers that are not finite are refused, as Python writes them, too") {
  for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
    CAPTURE(number);
    const auto reply = parse_command_reply("{\"id\": 3, \"reward\": " + std::string(number) + "}");
    REQUIRE(reply.has_value());
    CHECK(reply->id == 3);
    CHECK(mentions(reply->refusal, "not a finite number, got: {\"id\": 3"));
  }
  CHECK(mentions(refusal("{\"id\": 1, \"reward\": 1e999}"), "malformed JSON"));
  const auto quoted = parse_command_reply("{\"id\": 3, \"reward\": 1, \"observation\": \"NaN\"}");
  REQUIRE(quoted.has_value());
  CHECK(quoted->observation == "NaN");
}

TEST_CASE("every prefix of a reply is refused") {
  const std::string line = "{\"id\": 7, \"reward\": 0.5, \"done\": false}";
  for (std::size_t length = 0; length < line.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(parse_command_reply(std::string_view(line).substr(0, length)).has_value());
  }
}

TEST_CASE("a line above the limit is refused without being parsed") {
  const std::string line(command_reply_bytes_max + 1, ' ');
  const auto reply = parse_command_reply(line);
  REQUIRE_FALSE(reply.has_value());
  CHECK(reply.error().code == errc::exhausted);
}

TEST_SUITE_END();
