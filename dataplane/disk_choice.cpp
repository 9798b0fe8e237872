#include "dataplane/posix_disk.hpp"
#include "dataplane/uring_disk.hpp"

#include <utility>

namespace weir::dataplane {

result<chosen_disk> choose_disk(disk_kind wanted) {
  if (wanted == disk_kind::posix) return chosen_disk{make_posix_disk(), {}};
  auto made = make_uring_disk();
  if (made) return chosen_disk{std::move(*made), {}};
  if (wanted == disk_kind::io_uring) return failure(std::move(made.error()));
  return chosen_disk{make_posix_disk(), made.error().text + "; files are written by posix calls"};
}

} // namespace weir::dataplane
