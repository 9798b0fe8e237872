/// A peer that is a process of its own, and is killed.
#include "tests/runtime/two_graphs.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace weir::test {
namespace {

using namespace std::chrono_literals;

/// keeper_process, until it is killed.
class keeper_process {
public:
  keeper_process() {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    REQUIRE(::pipe2(in.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(out.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    const auto self = std::filesystem::read_symlink("/proc/self/exe");
    std::string program = self.parent_path() / "keeper_process";
    std::array<char*, 2> arguments{program.data(), nullptr};
    const int spawned =
        ::posix_spawn(&pid_, program.c_str(), &files, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    REQUIRE(spawned == 0);
    std::string text;
    char letter = 0;
    while (::read(out[0], &letter, 1) == 1 && letter != '\n')
      text += letter;
    ::close(out[0]);
    REQUIRE(!text.empty());
    port_ = static_cast<std::uint16_t>(std::strtoul(text.c_str(), nullptr, 10));
  }
  keeper_process(const keeper_process&) = delete;
  keeper_process& operator=(const keeper_process&) = delete;
  ~keeper_process() {
    ::close(input_);
    kill();
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    CHECK(::waitpid(pid_, nullptr, 0) == pid_);
    pid_ = 0;
  }

private:
  pid_t pid_ = 0;
  int input_ = -1;
  std::uint16_t port_ = 0;
};

} // namespace

TEST_SUITE("runtime/remote process") {
  TEST_CASE("a peer that is killed ends every pending ask at once, with its name") {
    two_graphs test;
    keeper_process peer;
    const auto remote =
        test.near.connect<keeper_protocol>("127.0.0.1", peer.port(), "keeper", within(5s));
    REQUIRE(remote);
    CHECK(test.near.ask_blocking(*remote, probe(), within(5s)));
    auto first = test.ask_later(*remote);
    auto second = test.ask_later(*remote);
    REQUIRE(eventually(test.env, [&] { return test.near.counters().pending_asks >= 2; }));
    const auto before = test.env.clock().now();
    peer.kill();
    for (auto* waiting : {&first, &second}) {
      const auto lost = waiting->get();
      REQUIRE(!lost);
      CHECK(lost.error().code == errc::unavailable);
      CHECK(lost.error().text ==
            remote->name() + " is lost: the connection was lost; connect again");
      CHECK(lost.error().origin == remote->name());
      CHECK(lost.error().subject == "StartGroup");
    }
    // They would have waited for a minute.
    CHECK(std::chrono::nanoseconds(test.env.clock().now() - before) < 10s);
    CHECK(test.near.counters().pending_asks == 0);
    CHECK(test.near.border().lost_peers == 1);
    CHECK(!test.near.connect<keeper_protocol>("127.0.0.1", peer.port(), "keeper", within(5s)));
  }
}

} // namespace weir::test
