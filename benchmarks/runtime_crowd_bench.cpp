/// Many actors with many asks under way: what a pending ask holds, and how fast all are answered.
///
/// A ring of actors, each of which asks the next one 100 times at once. Bound: a pending ask is two
/// coroutines and a slot with its deadline on the asking side, and two coroutines on the answering
/// side, where CAF has an entry with a behaviour on one side and a response promise on the other.
/// The working set is far larger than the caches, so the rate is that of memory.
#include "actors/graph.hpp"
#include "benchmarks/caf_baseline.hpp"
#include "benchmarks/crowd_run.hpp"
#include "benchmarks/runtime_bench.hpp"

#include <atomic>
#include <future>

namespace weir::benchmarks {
namespace {

using namespace std::chrono_literals;

using member_protocol = protocol<call<Probe, ProbeAnswered>, note<StopGroup>>;

/// What a member is told to do, as the group of a StopGroup.
enum command : std::uint64_t { begin_asking, answer_held };

/// One run: counts what all members do, and says when it is complete.
class member : public actor {
public:
  using protocol = member_protocol;
  member(context ctx, crowd_run* run, std::string next)
      : actor(ctx), ctx_(std::move(ctx)), run_(run), next_(std::move(next)),
        request_(pack(ProbeT())), reply_(pack(ProbeAnsweredT())) {
    serve(&member::on_probe);
    serve(&member::on_command);
  }

private:
  task<result<message<ProbeAnswered>>> on_probe(message<Probe>) {
    if (run_->holding) {
      if (++run_->arrived == run_->expected) run_->all_arrived.set_value();
      co_await released_.raised();
    }
    co_return reply_;
  }
  task<void> on_command(message<StopGroup> command) {
    if (command->group() == answer_held) {
      released_.raise();
      co_return;
    }
    if (!asked_) asked_ = ctx_.find<member_protocol>(next_);
    for (std::size_t i = 0; i < run_->in_flight; ++i)
      children().spawn(&member::ask_next, this);
  }
  task<void> ask_next() {
    auto answer = co_await asked_.ask(request_, within(600s));
    ensure(answer.has_value(), "the next one in the ring answers");
    if (++run_->answered == run_->expected) run_->all_answered.set_value();
  }

  context ctx_;
  crowd_run* run_;
  std::string next_;
  handle<member_protocol> asked_;
  message<Probe> request_;
  message<ProbeAnswered> reply_;
  signal released_;
};

class crowd {
public:
  crowd(std::size_t workers, std::size_t actors, std::size_t in_flight)
      : system_(env_, {.workers = workers}) {
    run_.in_flight = in_flight;
    run_.expected = actors * in_flight;
    for (std::size_t i = 0; i < actors; ++i)
      members_.push_back(system_.add<member>(name_of(i), &run_, name_of((i + 1) % actors)));
    ensure(system_.start().has_value(), "the crowd starts");
  }
  void hold(const std::function<void()>& pending) {
    begin(true);
    run_.all_arrived.get_future().wait();
    pending();
    tell_all(answer_held);
    run_.all_answered.get_future().wait();
  }
  void run() {
    begin(false);
    run_.all_answered.get_future().wait();
  }

private:
  static std::string name_of(std::size_t index) { return "member " + std::to_string(index); }
  void begin(bool holding) {
    run_.begin(holding);
    tell_all(begin_asking);
  }
  void tell_all(command what) {
    StopGroupT told;
    told.group = what;
    const auto note = pack(told);
    for (const auto& each : members_)
      each.tell(note);
  }

  crowd_run run_;
  world env_{world_options{}};
  graph system_;
  std::vector<handle<member_protocol>> members_;
};

/// What one crowd showed: heap held by each pending ask, then the rate of a warm run.
struct figures {
  double bytes_per_ask = 0;
  double messages_per_second = 0;
};

template <class Crowd>
figures figures_of(Crowd& all, std::size_t asks) {
  const auto count = static_cast<double>(asks);
  const double before = heap_bytes();
  double during = 0;
  all.hold([&during] { during = heap_bytes(); });
  const auto begin = steady::now();
  all.run();
  return {(during - before) / count, 2 * count * 1e9 / nanoseconds_since(begin)};
}

frame framed(payload_ptr content) {
  frame made;
  made.header.sender = std::make_shared<const std::string>("bench");
  made.content = std::move(content);
  return made;
}

/// Plays recorded figures again, one a call: for the second row of what was measured once.
measurement replay(const std::vector<double>& recorded) {
  return [&recorded, next = std::size_t(0)]() mutable { return recorded.at(next++); };
}

} // namespace

std::vector<row> crowd_rows(effort much) {
  const std::size_t actors = much.quick ? 50 : 10'000;
  constexpr std::size_t in_flight = 100;
  constexpr std::size_t workers = 2;
  const std::size_t asks = actors * in_flight;
  std::vector<double> ours_bytes, baseline_bytes;
  const auto ours = [&] {
    crowd all(workers, actors, in_flight);
    const figures each = figures_of(all, asks);
    ours_bytes.push_back(each.bytes_per_ask);
    return each.messages_per_second;
  };
  const auto baseline = [&] {
    caf_crowd all(workers, actors, in_flight, framed(pack(ProbeT()).content()),
                  framed(pack(ProbeAnsweredT()).content()));
    const figures each = figures_of(all, asks);
    baseline_bytes.push_back(each.bytes_per_ask);
    return each.messages_per_second;
  };
  const std::string what = std::to_string(actors) + " actors x 100 asks: ";
  constexpr std::size_t turns = 7;
  std::vector<row> rows;
  rows.push_back(compare({what + "messages", "1/s", "CAF request().then()", 0.95, better::higher},
                         ours, baseline, turns));
  // Nothing was promised here: 8 keeps it from growing unseen.
  rows.push_back(
      compare({what + "memory of each", "bytes", "CAF request().then()", 8.0, better::lower},
              replay(ours_bytes), replay(baseline_bytes), turns));
  return rows;
}

} // namespace weir::benchmarks
