#include "actors/runtime/world.hpp"

#include <array>
#include <bit>
#include <cstdio>
#include <ctime>

namespace weir {
namespace {

class system_clock final : public clock {
public:
  [[nodiscard]] std::int64_t now() const override {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  }
  [[nodiscard]] std::string wall_text() const override {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return utc_text(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
  }
};

std::uint64_t splitmix(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

} // namespace

std::string utc_text(std::int64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%s.%03dZ", date.data(),
                static_cast<int>(unix_ms % 1000));
  return text.data();
}

std::unique_ptr<clock> make_system_clock() {
  return std::make_unique<system_clock>();
}

random_source::random_source(std::uint64_t seed) noexcept {
  for (auto& word : state_)
    word = splitmix(seed);
}

std::uint64_t random_source::next() noexcept {
  const std::uint64_t value = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return value;
}

std::uint64_t random_source::below(std::uint64_t bound) noexcept {
  ensure(bound > 0, "a random number is drawn below a positive bound");
  // Values under the threshold would make the small remainders more likely.
  const std::uint64_t threshold = (0 - bound) % bound;
  std::uint64_t drawn = next();
  while (drawn < threshold)
    drawn = next();
  return drawn % bound;
}

double random_source::unit() noexcept {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

std::string_view to_string(log_level level) noexcept {
  switch (level) {
  case log_level::debug:
    return "debug";
  case log_level::info:
    return "info";
  case log_level::warning:
    return "warning";
  case log_level::error:
    return "error";
  }
  return "unknown";
}

world::world(world_options options)
    : world(options, make_system_clock(), make_blocking_pool(options.blocking)) {
  background_ = make_blocking_pool(options.background);
}

world::world(world_options options, std::unique_ptr<weir::clock> time,
             std::unique_ptr<blocking_pool> pool, detail::simulated_scheduler* schedule)
    : options_(std::move(options)), clock_(std::move(time)), pool_(std::move(pool)),
      schedule_(schedule) {}

world::~world() {
  pool_->stop();
  if (background_) background_->stop();
}

dataplane::disk& world::storage() const noexcept {
  ensure(options_.storage != nullptr, "whoever uses storage was given a world with a disk");
  return *options_.storage;
}

random_source world::random(std::string_view purpose) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ options_.seed;
  for (const char letter : purpose)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return random_source(hash);
}

void world::log(log_level level, std::string_view actor, std::string_view text) const {
  if (options_.log) {
    options_.log(level, actor, text);
    return;
  }
  if (level < log_level::warning) return;
  const std::string line = "weir: " + std::string(to_string(level)) + ": " + std::string(actor) +
                           ": " + std::string(text) + "\n";
  std::fputs(line.c_str(), stderr);
}

} // namespace weir
