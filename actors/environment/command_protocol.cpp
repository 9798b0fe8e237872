#include "actors/environment/command_protocol.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace weir {

namespace {

using nlohmann::json;

tl::unexpected<error> refused(std::string_view line, const std::string& reason) {
  constexpr std::size_t shown_bytes_max = 120;
  std::string shown;
  for (const char letter : line.substr(0, shown_bytes_max))
    shown += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  return failure(errc::corrupt,
                 "the environment's command wrote a line that is no reply: " + reason +
                     "; expected {\"id\": ..., \"reward\": ...}, got: " + shown +
                     (line.size() > shown_bytes_max ? "..." : ""));
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
    return failure(errc::exhausted, "the environment's command wrote a line of " +
                                        std::to_string(line.size()) + " bytes; the limit is " +
                                        std::to_string(command_reply_bytes_max));
  const json parsed = json::parse(line.begin(), line.end(), nullptr, false);
  if (parsed.is_discarded()) return refused(line, "malformed JSON");
  if (!parsed.is_object()) return refused(line, "not an object");

  const auto id = parsed.find("id");
  if (id == parsed.end() || !id->is_number_unsigned())
    return refused(line, "\"id\" is missing or not the number of a request");
  const auto reward = parsed.find("reward");
  if (reward == parsed.end() || !reward->is_number() || !std::isfinite(reward->get<double>()))
    return refused(line, "\"reward\" is missing or not a finite number");
  command_reply reply{.id = id->get<std::uint64_t>(), .reward = reward->get<double>()};

  if (const auto done = parsed.find("done"); done != parsed.end()) {
    if (!done->is_boolean()) return refused(line, "\"done\" is not true or false");
    reply.done = done->get<bool>();
  }
  if (const auto text = parsed.find("observation"); text != parsed.end() && !text->is_null()) {
    if (!text->is_string()) return refused(line, "\"observation\" is not a string");
    reply.observation = text->get<std::string>();
  }
  return reply;
}

} // namespace weir
