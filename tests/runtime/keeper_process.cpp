/// A process that publishes a keeper: the peer that remote_process_test.cpp kills.
///
/// Writes the port to standard output, and ends when standard input does.
#include "tests/runtime/actors_under_test.hpp"

#include <cstdio>

int main() {
  weir::world env({.log = [](weir::log_level, std::string_view, std::string_view) {}});
  weir::graph system(env);
  const auto keeper = system.add<weir::test::keeper>("keeper");
  const auto port = system.publish(keeper, "keeper");
  if (!port || !system.start()) return 1;
  std::printf("%u\n", static_cast<unsigned>(*port));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return system.stop() ? 0 : 1;
}
