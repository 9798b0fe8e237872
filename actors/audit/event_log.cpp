#include "actors/audit/event_log.hpp"

#include "actors/audit/event_codec.hpp"

#include <tuple>
#include <utility>

namespace weir {

void event_log::append(std::string_view owner, sequence_number sequence, const event& what) {
  std::string line;
  encode_event(line, life_, owner, sequence, what);
  std::size_t gathered = 0;
  {
    const std::scoped_lock guard(gathered_mutex_);
    gathered_ += line;
    gathered = gathered_.size();
  }
  if (gathered <= gathered_bytes_max) return;
  const std::scoped_lock guard(file_mutex_);
  hand_over();
}

void event_log::hand_over() {
  std::string lines;
  {
    const std::scoped_lock guard(gathered_mutex_);
    lines = std::exchange(gathered_, std::string());
  }
  if (lines.empty() || !file_) return;
  lines.pop_back(); // The file adds the last line's end itself.
  const auto taken = file_->append(lines);
  if (!taken && taken.error().code == errc::exhausted)
    has_hole_ = true; // Any other error keeps the lines, for the next sync.
}

result<void> event_log::sync() {
  const std::scoped_lock guard(file_mutex_);
  hand_over();
  if (has_hole_)
    return failure(errc::exhausted,
                   file_->path() + ": the disk took nothing for so long that events were lost; "
                                   "free space and start the run again");
  return file_ ? file_->sync() : result<void>();
}

} // namespace weir
