/// After every test of this executable nothing of an actor is left in the process. A mailbox goes
/// with its actor, and an actor ends the process if a coroutine, a lease or a stream outlives it;
/// so no mailbox means that all counters are zero.
#include "actors/runtime/detail/address.hpp"
#include "messages/error.hpp"

#include <doctest/doctest.h>

#include <cstdio>

namespace weir::test {
namespace {

class nothing_left final : public doctest::IReporter {
public:
  explicit nothing_left(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& begun) override { name_ = begun.m_name; }
  void test_case_end(const doctest::CurrentTestCaseStats& ended) override {
    if ((ended.failure_flags & doctest::TestCaseFailureReason::Crash) != 0) return; // That is told.
    const std::size_t left = detail::mailboxes_alive();
    if (left != 0) std::fprintf(stderr, "%zu mailboxes are left by: %s\n", left, name_);
    ensure(left == 0, "a test leaves no actor and no mailbox behind");
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

private:
  const char* name_ = "";
};

DOCTEST_REGISTER_LISTENER("nothing left", 1, nothing_left);

} // namespace
} // namespace weir::test
