#include "actors/environment/command_protocol.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace weir {

namespace {

using nlohmann::json;

tl::unexpected<error> refused(std::string_view line, const std::string& reason) {
  return failure(errc::corrupt, "wrote a line that is no reply: " + reason +
                                    "; expected {\"id\": ..., \"reward\": ...} and nothing else on "
                                    "the standard output, got: " +
                                    shown_line(line));
}

/// The line with null in place of what Python writes for numbers that JSON does not have.
std::string without_foreign_numbers(std::string_view line) {
  std::string plain;
  bool quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '"' && (at == 0 || line[at - 1] != '\\')) quoted = !quoted;
    bool foreign = false;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (quoted || foreign || !line.substr(at).starts_with(word)) continue;
      foreign = true;
      at += word.size() - 1;
    }
    if (foreign)
      plain += "null";
    else
      plain += line[at];
  }
  return plain;
}

json parse_line(std::string_view line) {
  json parsed = json::parse(line.begin(), line.end(), nullptr, false);
  if (!parsed.is_discarded()) return parsed;
  return json::parse(without_foreign_numbers(line), nullptr, false);
}

/// Fills in what follows the id; the reason when that is wrong.
std::string read_answer(const json& parsed, command_reply& reply) {
  const auto reward = parsed.find("reward");
  if (reward == parsed.end() || !reward->is_number() || !std::isfinite(reward->get<float>()))
    return "\"reward\" is missing or not a finite number";
  reply.reward = reward->get<double>();
  if (const auto done = parsed.find("done"); done != parsed.end()) {
    if (!done->is_boolean()) return "\"done\" is not true or false";
    reply.done = done->get<bool>();
  }
  if (const auto text = parsed.find("observation"); text != parsed.end() && !text->is_null()) {
    if (!text->is_string()) return "\"observation\" is not a string";
    reply.observation = text->get<std::string>();
  }
  return {};
}

} // namespace

std::string encode(const command_request& request) {
  nlohmann::ordered_json line;
  line["id"] = request.id;
  line["prompt"] = request.prompt;
  line["answer"] = request.answer;
  line["completion"] = request.completion;
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

result<command_reply> parse_command_reply(std::string_view line) {
  if (line.size() > command_reply_bytes_max)
    return failure(errc::exhausted, "wrote a line of " + std::to_string(line.size()) +
                                        " bytes; the limit is " +
                                        std::to_string(command_reply_bytes_max));
  const json parsed = parse_line(line);
  if (parsed.is_discarded()) return refused(line, "malformed JSON");
  if (!parsed.is_object()) return refused(line, "not an object");
  const auto id = parsed.find("id");
  if (id == parsed.end() || !id->is_number_unsigned())
    return refused(line, "\"id\" is missing or not the number of a request");
  command_reply reply{.id = id->get<std::uint64_t>()};
  if (const std::string wrong = read_answer(parsed, reply); !wrong.empty())
    reply.refusal = wrong + ", got: " + shown_line(line);
  return reply;
}

std::string shown_line(std::string_view line) {
  constexpr std::size_t shown_bytes_max = 120;
  std::string shown;
  for (const char letter : line.substr(0, shown_bytes_max))
    shown += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  return shown + (line.size() > shown_bytes_max ? "..." : "");
}

} // namespace weir
