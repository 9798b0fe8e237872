#include "dataplane/run_directory.hpp"

#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace weir::dataplane {

namespace {

constexpr std::uint64_t lock_bytes_max = 4096;
/// The longest number has 20 digits, and a line end.
constexpr std::uint64_t incarnation_bytes_max = 21;

std::string text_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    text += static_cast<char>(byte);
  return text;
}

/// The holder's own words, made fit for one line of an error.
std::string holder_of(disk& storage, const std::string& lock_path) {
  const auto content = read_file(storage, lock_path, lock_bytes_max);
  if (!content || content->empty()) return "a process that did not leave its name";
  std::string text = text_of(*content);
  for (char& c : text)
    if (c < ' ' || c > '~') c = ' ';
  while (!text.empty() && text.back() == ' ')
    text.pop_back();
  return text;
}

std::optional<incarnation> parse_incarnation(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return incarnation(number);
}

} // namespace

result<run_directory> run_directory::acquire(disk& storage, std::string path,
                                             const run_holder& holder) {
  if (auto made = make_directories(storage, path); !made) return failure(std::move(made.error()));
  const std::string lock_path = join(path, "lock");
  auto held = storage.lock(lock_path);
  if (!held && held.error().code == errc::already_exists)
    return failure(errc::already_exists, path + ": in use by " + holder_of(storage, lock_path) +
                                             "; stop that process, or use another directory");
  if (!held) return failure(std::move(held.error()));
  const std::string note = "pid " + std::to_string(holder.process.pid) + " on host " +
                           holder.process.host + ", started " + holder.started + "\n";
  if (auto described = (*held)->describe(note); !described)
    return failure(std::move(described.error()));
  return run_directory(storage, std::move(path), std::move(*held));
}

result<incarnation> run_directory::read_incarnation() const {
  const std::string file_path = incarnation_path();
  const auto content = read_file(*storage_, file_path, lock_bytes_max);
  if (!content && content.error().code == errc::not_found) return incarnation(0);
  if (!content && content.error().code != errc::exhausted) return failure(content.error());
  const auto number = content && content->size() <= incarnation_bytes_max
                          ? parse_incarnation(text_of(*content))
                          : std::nullopt;
  if (!number || number->value == std::numeric_limits<std::uint64_t>::max())
    return failure(errc::corrupt,
                   file_path + ": is not a number; write one there that is at least that of the "
                               "highest events-<number>.jsonl beside it");
  return *number;
}

result<incarnation> run_directory::raise_incarnation(incarnation highest_in_manifests) {
  const auto on_file = read_incarnation();
  if (!on_file) return failure(on_file.error());
  const incarnation highest = std::max(*on_file, highest_in_manifests);
  if (highest.value >= std::numeric_limits<std::uint64_t>::max() - 1)
    return failure(errc::corrupt, path_ + ": a manifest names the incarnation " +
                                      std::to_string(highest.value) +
                                      ", after which there is none");
  const incarnation raised = highest.next();
  const std::string text = std::to_string(raised.value) + "\n";
  auto replaced = replace_file(*storage_, incarnation_path(), std::as_bytes(std::span(text)));
  if (!replaced) return failure(std::move(replaced.error()));
  return raised;
}

result<void> run_directory::check_current(incarnation mine) const {
  const auto on_file = read_incarnation();
  if (!on_file) return failure(on_file.error());
  if (*on_file == mine) return {};
  return failure(errc::conflict, incarnation_path() + ": says " + std::to_string(on_file->value) +
                                     ", and this process is incarnation " +
                                     std::to_string(mine.value) +
                                     ": another process took the run over, so this one stops");
}

std::string run_directory::events_path(incarnation life) const {
  return join(path_, "events-" + std::to_string(life.value) + ".jsonl");
}

std::string run_directory::incarnation_path() const {
  return join(path_, "INCARNATION");
}

} // namespace weir::dataplane
