#include "actors/audit/event_codec.hpp"

#include "actors/audit/line_reader.hpp"

#include <charconv>
#include <limits>
#include <utility>

namespace weir {

namespace {

constexpr std::array<std::string_view, std::variant_size_v<event>> kind_names = {
    "group", "out", "step", "cut", "publish", "restore", "start", "finish"};

template <class Enum, std::size_t Count>
constexpr std::array<std::string_view, Count> names_of() {
  std::array<std::string_view, Count> names = {};
  for (std::size_t index = 0; index < Count; ++index)
    names[index] = to_string(static_cast<Enum>(index));
  return names;
}
constexpr auto state_names = names_of<group_state, group_states>();
constexpr auto reason_names = names_of<event_reason, event_reasons>();
constexpr auto finish_names = names_of<finish_reason, finish_reasons>();

void write(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

void write(std::string& out, std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  out += '"';
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (byte < 0x20 || byte > 0x7e) {
      out += "\\u00";
      out += hex[byte >> 4U];
      out += hex[byte & 15U];
    } else {
      out += letter;
    }
  }
  out += '"';
}

template <std::size_t Count>
void write_list(std::string& out, const std::array<std::uint64_t, Count>& numbers) {
  char before = '[';
  for (const std::uint64_t number : numbers) {
    out += before;
    write(out, number);
    before = ',';
  }
  out += ']';
}

void write(std::string& out, const sample_id& sample) {
  write_list(out, std::array{sample.epoch, sample.position});
}
void write(std::string& out, const epoch_id& epoch) {
  write_list(out, std::array{epoch.incarnation, epoch.life, epoch.number});
}
void write(std::string& out, const group_tally& tally) {
  write_list(out, std::array{tally.count, tally.sum_low, tally.sum_high});
}

void write_key(std::string& out, std::string_view key) {
  out += ",\"";
  out += key;
  out += "\":";
}

template <class Value>
void write_field(std::string& out, std::string_view key, const Value& value) {
  write_key(out, key);
  write(out, value);
}

void write_step(std::string& out, std::string_view key, std::int64_t step) {
  ensure(step >= -1, "a step of an event is a step or -1");
  if (step >= 0) write_field(out, key, static_cast<std::uint64_t>(step));
}

void write_version(std::string& out, std::string_view key,
                   const std::optional<weight_version>& version) {
  if (version) write_field(out, key, version->value);
}

void write_event(std::string& out, const group_event& what) {
  write_field(out, "g", what.group.value);
  write_field(out, "f", to_string(what.from));
  write_field(out, "t", to_string(what.to));
  if (what.reason != event_reason::none) write_field(out, "r", to_string(what.reason));
  if (what.attempt != 0) write_field(out, "a", std::uint64_t{what.attempt});
  if (what.sample) write_field(out, "p", *what.sample);
  write_step(out, "ts", what.target_step);
  write_version(out, "av", what.admission_version);
  if (what.window) write_field(out, "w", *what.window);
  write_version(out, "sv", what.start_version);
  write_version(out, "ev", what.end_version);
  write_step(out, "s", what.step);
  write_version(out, "v", what.trainer_version);
  if (what.transaction != 0) write_field(out, "x", what.transaction);
}

void write_event(std::string& out, const handed_out_event& what) {
  write_field(out, "g", what.first.value);
  write_field(out, "c", what.count);
  write_field(out, "p", what.sample);
}

void write_event(std::string& out, const step_finished_event& what) {
  ensure(what.step <= std::numeric_limits<std::int64_t>::max(), "a step fits 63 bits");
  write_field(out, "s", what.step);
  write_field(out, "v", what.version.value);
}

void write_event(std::string& out, const cut_event& what) {
  write_field(out, "k", what.epoch);
  write_key(out, "q");
  char before = '{';
  for (const owner_sequence& newest : what.owners) {
    out += before;
    write(out, newest.owner);
    out += ':';
    write(out, newest.sequence.value);
    before = ',';
  }
  out += what.owners.empty() ? "{}" : "}";
  write_field(out, "h", what.tallies.handed_out);
  write_key(out, "y");
  before = '{';
  for (std::size_t state = 0; state < group_states; ++state) {
    const group_tally& tally = what.tallies.in_state[state];
    if (tally == group_tally{}) continue;
    out += before;
    write(out, state_names[state]);
    out += ':';
    write(out, tally);
    before = ',';
  }
  out += before == '{' ? "{}" : "}";
}

void write_event(std::string& out, const published_event& what) {
  write_field(out, "b", what.bundle);
  write_field(out, "k", what.epoch);
  write_field(out, "d", what.parent);
}

void write_event(std::string& out, const restored_event& what) {
  write_field(out, "b", what.bundle);
  write_field(out, "k", what.epoch);
}

void write_event(std::string& out, const incarnation_started_event& what) {
  write_field(out, "u", what.run);
  if (!what.terms) return;
  write_field(out, "w", what.terms->window);
  write_version(out, "pv", what.terms->oldest_pin);
}

void write_event(std::string& out, const run_finished_event& what) {
  write_field(out, "z", to_string(what.reason));
}

// Reading: the first mistake is kept by the line_reader, and everything after it does nothing.

std::optional<weight_version> read_version(detail::line_reader& line, std::string_view key) {
  if (!line.has_key(key)) return std::nullopt;
  return weight_version(line.number());
}

std::int64_t read_step(detail::line_reader& line, std::string_view key) {
  return line.has_key(key) ? line.step() : -1;
}

sample_id read_sample(detail::line_reader& line) {
  const auto numbers = line.list<2>();
  return {.epoch = numbers[0], .position = numbers[1]};
}

epoch_id read_epoch(detail::line_reader& line) {
  line.key("k");
  const auto numbers = line.list<3>();
  return {.incarnation = numbers[0], .life = numbers[1], .number = numbers[2]};
}

group_tally read_tally(detail::line_reader& line) {
  const auto numbers = line.list<3>();
  return {.count = numbers[0], .sum_low = numbers[1], .sum_high = numbers[2]};
}

std::string read_text(detail::line_reader& line, std::string_view key) {
  line.key(key);
  return line.text();
}

void read_event(detail::line_reader& line, group_event& what) {
  line.key("g");
  what.group = group_id(line.number());
  line.key("f");
  what.from = static_cast<group_state>(line.word(state_names));
  line.key("t");
  what.to = static_cast<group_state>(line.word(state_names));
  if (line.has_key("r")) {
    what.reason = static_cast<event_reason>(line.word(reason_names));
    line.require(what.reason != event_reason::none, "a reason; none is left out");
  }
  if (line.has_key("a")) {
    const std::uint64_t attempt = line.number();
    line.require(attempt >= 1 && attempt <= std::numeric_limits<std::uint32_t>::max(),
                 "an attempt of 32 bits; 0 is left out");
    what.attempt = static_cast<std::uint32_t>(attempt);
  }
  if (line.has_key("p")) what.sample = read_sample(line);
  what.target_step = read_step(line, "ts");
  what.admission_version = read_version(line, "av");
  if (line.has_key("w")) what.window = line.number();
  what.start_version = read_version(line, "sv");
  what.end_version = read_version(line, "ev");
  what.step = read_step(line, "s");
  what.trainer_version = read_version(line, "v");
  if (line.has_key("x")) {
    what.transaction = line.number();
    line.require(what.transaction != 0, "a transaction; 0 is left out");
  }
}

void read_event(detail::line_reader& line, handed_out_event& what) {
  line.key("g");
  what.first = group_id(line.number());
  line.key("c");
  what.count = line.number();
  line.key("p");
  what.sample = read_sample(line);
}

void read_event(detail::line_reader& line, step_finished_event& what) {
  line.key("s");
  what.step = static_cast<std::uint64_t>(line.step());
  line.key("v");
  what.version = weight_version(line.number());
}

void read_event(detail::line_reader& line, cut_event& what) {
  what.epoch = read_epoch(line);
  line.key("q");
  line.open_object();
  while (line.has_member()) {
    std::string owner = line.member_name();
    what.owners.push_back({std::move(owner), sequence_number(line.number())});
  }
  line.key("h");
  what.tallies.handed_out = read_tally(line);
  line.key("y");
  line.open_object();
  std::size_t lowest = 0;
  while (line.has_member()) {
    const std::size_t state = line.word(state_names);
    line.literal(":");
    const group_tally tally = read_tally(line);
    line.require(state >= lowest, "states in their order, each once");
    line.require(tally != group_tally{}, "a tally; an empty one is left out");
    what.tallies.in_state[state] = tally;
    lowest = state + 1;
  }
}

void read_event(detail::line_reader& line, published_event& what) {
  what.bundle = read_text(line, "b");
  what.epoch = read_epoch(line);
  what.parent = read_text(line, "d");
}

void read_event(detail::line_reader& line, restored_event& what) {
  what.bundle = read_text(line, "b");
  what.epoch = read_epoch(line);
}

void read_event(detail::line_reader& line, incarnation_started_event& what) {
  what.run = read_text(line, "u");
  if (!line.has_key("w")) return;
  what.terms.emplace().window = line.number();
  what.terms->oldest_pin = read_version(line, "pv");
}

void read_event(detail::line_reader& line, run_finished_event& what) {
  line.key("z");
  what.reason = static_cast<finish_reason>(line.word(finish_names));
}

template <std::size_t Kind = 0>
void read_event_of(detail::line_reader& line, std::size_t kind, event& what) {
  if constexpr (Kind < std::variant_size_v<event>) {
    if (kind == Kind)
      read_event(line, what.emplace<Kind>());
    else
      read_event_of<Kind + 1>(line, kind, what);
  }
}

} // namespace

void encode_event(std::string& out, incarnation life, std::string_view owner,
                  sequence_number sequence, const event& what) {
  out += "{\"i\":";
  write(out, life.value);
  write_field(out, "o", owner);
  write_field(out, "n", sequence.value);
  write_field(out, "e", kind_names[what.index()]);
  std::visit([&out](const auto& alternative) { write_event(out, alternative); }, what);
  out += "}\n";
}

void encode_event(std::string& out, const event_record& record) {
  encode_event(out, record.incarnation, record.owner, record.sequence, record.what);
}

result<event_record> decode_event(std::string_view text) {
  detail::line_reader line(text);
  event_record record;
  line.literal("{\"i\":");
  record.incarnation = incarnation(line.number());
  record.owner = read_text(line, "o");
  line.key("n");
  record.sequence = sequence_number(line.number());
  line.key("e");
  const std::size_t kind = line.word(kind_names);
  read_event_of(line, kind, record.what);
  line.literal("}");
  line.end();
  if (auto mistake = line.mistake()) return failure(errc::corrupt, std::move(*mistake));
  return record;
}

} // namespace weir
