/// In the place of `uring_disk.cpp` where liburing was missing when this was built.
#include "dataplane/uring_disk.hpp"

namespace weir::dataplane {

result<std::unique_ptr<disk>> make_uring_disk() {
  return failure(errc::unsupported, "io_uring: this program was built without it; install liburing "
                                    "(liburing-dev) and build again, or use posix");
}

} // namespace weir::dataplane
