/// Writes the arithmetic problems: one-digit sums, differences and products, as JSON Lines.
///
///     generate [SEED] > problems.jsonl
///
/// 255 facts: a + b and a x b for every pair of digits, a - b for a >= b (so that no answer is
/// negative). Each fact is asked in twelve phrasings, in an order shuffled by the seed:
///
///     {"question": "What is 3 plus 4?", "answer": "7"}
///
/// The same seed gives the same bytes on every machine: a test compares the output for the default
/// seed with the committed problems.jsonl.
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr std::uint64_t default_seed = 1;
constexpr int digit_max = 9;

/// One operation with its words. In a phrasing, `{a}` and `{b}` are the operands, `{s}` the symbol
/// and `{w}` the word.
struct operation {
  std::string_view symbol;
  std::string_view word;
  int (*apply)(int, int);
  bool (*asked)(int, int);
  std::array<std::string_view, 2> own_phrasings;
};

constexpr std::array<std::string_view, 10> shared_phrasings = {
    "{a}{s}{b}=",         "{a} {s} {b} =",        "{a} {s} {b} = ?", "{a}{s}{b} is",
    "{a} {w} {b}",        "{a} {w} {b} is",       "Find {a}{s}{b}.", "Compute {a} {s} {b}.",
    "What is {a}{s}{b}?", "What is {a} {w} {b}?",
};

constexpr std::array<operation, 3> operations = {{
    {.symbol = "+",
     .word = "plus",
     .apply = [](int a, int b) { return a + b; },
     .asked = [](int, int) { return true; },
     .own_phrasings = {"Add {a} and {b}.", "Sum of {a} and {b}?"}},
    {.symbol = "-",
     .word = "minus",
     .apply = [](int a, int b) { return a - b; },
     .asked = [](int a, int b) { return a >= b; },
     .own_phrasings = {"From {a} take {b}.", "{a} less {b}?"}},
    {.symbol = "x",
     .word = "times",
     .apply = [](int a, int b) { return a * b; },
     .asked = [](int, int) { return true; },
     .own_phrasings = {"Multiply {a} by {b}.", "Product of {a} and {b}?"}},
}};

/// splitmix64: small, and the same everywhere.
struct random_words {
  std::uint64_t state;
  std::uint64_t next() {
    state += 0x9e3779b97f4a7c15ULL;
    std::uint64_t word = state;
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
    return word ^ (word >> 31U);
  }
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string record(const operation& asked, std::string_view phrasing, int a, int b) {
  std::string question(phrasing);
  replace_all(question, "{a}", std::to_string(a));
  replace_all(question, "{b}", std::to_string(b));
  replace_all(question, "{s}", asked.symbol);
  replace_all(question, "{w}", asked.word);
  const std::string answer = std::to_string(asked.apply(a, b));
  return R"({"question": ")" + question + R"(", "answer": ")" + answer + "\"}\n";
}

void append_fact(std::vector<std::string>& records, const operation& asked, int a, int b) {
  for (const std::string_view phrasing : shared_phrasings)
    records.push_back(record(asked, phrasing, a, b));
  for (const std::string_view phrasing : asked.own_phrasings)
    records.push_back(record(asked, phrasing, a, b));
}

/// Fisher and Yates. The modulo favours small numbers by less than 1 in 10^15.
void shuffle(std::vector<std::string>& records, std::uint64_t seed) {
  random_words words{seed};
  for (std::size_t left = records.size(); left > 1; --left)
    std::swap(records[left - 1], records[words.next() % left]);
}

} // namespace

int main(int argument_count, char** arguments) {
  std::uint64_t seed = default_seed;
  if (argument_count > 1) {
    const std::string_view text = arguments[1];
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (argument_count > 2 || code != std::errc{} || end != text.data() + text.size()) {
      std::fputs("usage: generate [SEED] > problems.jsonl   (SEED is a whole number)\n", stderr);
      return 2;
    }
  }
  std::vector<std::string> records;
  for (const operation& asked : operations)
    for (int a = 0; a <= digit_max; ++a)
      for (int b = 0; b <= digit_max; ++b)
        if (asked.asked(a, b)) append_fact(records, asked, a, b);
  shuffle(records, seed);
  for (const std::string& line : records)
    std::fputs(line.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}
