#include "tests/property/forest.hpp"

namespace weir::test {

namespace {

constexpr std::chrono::milliseconds unit(1);

epoch_id numbered(std::uint64_t number) {
  return {1, 1, number};
}

} // namespace

/// The first local of a coroutine: its last breath is the frame's.
class forest::life {
public:
  life(forest& of, std::size_t caller) : of_(of), id_(of.lives_.size()) {
    of_.expect(!of_.failed_, "something began after a failure");
    of_.lives_.push_back({.caller = caller});
    if (caller != 0) ++of_.lives_[caller].open_children;
  }
  life(const life&) = delete;
  life& operator=(const life&) = delete;
  ~life() {
    record& mine = of_.lives_[id_];
    of_.expect(!mine.ended, "a frame was destroyed twice");
    of_.expect(mine.open_children == 0, "a frame was destroyed before what it had begun");
    mine.ended = true;
    if (mine.caller != 0) --of_.lives_[mine.caller].open_children;
    if (!completed_) check_youngest(mine.caller);
  }
  [[nodiscard]] std::size_t id() const noexcept { return id_; }
  void complete() noexcept { completed_ = true; }

private:
  /// Siblings that are cancelled are cancelled together.
  void check_youngest(std::size_t caller) {
    if (caller == 0) return;
    for (std::size_t younger = id_ + 1; younger < of_.lives_.size(); ++younger)
      of_.expect(of_.lives_[younger].ended || of_.lives_[younger].caller != caller,
                 "an older one was cancelled before a younger one");
  }

  forest& of_;
  std::size_t id_;
  bool completed_ = false;
};

forest::forest()
    : queue_(*this), turn_(queue_), gate_(queue_, std::make_shared<const std::string>("forest"), 1),
      shield_(queue_), root_(queue_) {
  queue_.set_shield(&shield_);
  lives_.push_back({}); // Number 0 is nobody.
}

forest::~forest() = default;

void forest::expect(bool holds, std::string rule) {
  if (!holds && broken_.find(rule) == std::string::npos) broken_ += rule + "\n";
}

void forest::host_failed(error reason) noexcept {
  expect(reason.text.find("basic_string::at") == 0, "a failure is not told as it was thrown");
  expect(reason.text.find("thrown in") != std::string::npos, "a failure has no stack");
  failed_ = true;
  queue_.halt();
}

void forest::settle_failure() {
  if (!failed_) return;
  root_.cancel();
  shield_.cancel();
  queue_.go_on();
}

void forest::plant(const plan& tree) {
  if (!failed_) root_.spawn(&forest::grow_and_check, this, &tree, std::size_t(0));
}

void forest::step(std::size_t resumptions) {
  queue_.drain(resumptions);
  // Every one that lives is found, and what it waits for is there to be asked.
  expect(queue_.live() <= queue_.frames().live_frames(), "a coroutine lives without a frame");
  std::ignore = queue_.dump_tasks();
  settle_failure();
  if (!queue_.ready()) queue_.next_round();
}

void forest::advance(std::chrono::nanoseconds by) {
  now_ += by;
  queue_.timers().expire(now_);
}

void forest::cut_down() {
  root_.cancel();
  expect(root_.size() == 0, "a cancelled scope has children");
}

void forest::close_gate(std::chrono::nanoseconds hold) {
  std::ignore = gate_.close(numbered(next_epoch_++), hold);
}

void forest::open_gate() {
  if (next_epoch_ > 1) std::ignore = gate_.open(numbered(next_epoch_ - 1));
}

std::string forest::fell() {
  cut_down();
  open_gate();
  channel_.close();
  for (int round = 0; round < 1000 && shield_.size() > 0; ++round) {
    advance(unit * 16);
    signal_.raise();
    step(1000);
  }
  expect(shield_.size() == 0, "shielded work does not end");
  shield_.cancel();
  root_.cancel();
  check_channel();
  expect(!queue_.ready() && !queue_.deferred(), "a coroutine is ready that nobody owns");
  expect(queue_.live() == 0, "coroutines are alive");
  expect(queue_.frames().live_frames() == 0, "frames are alive");
  expect(queue_.timers().empty(), "a deadline is armed");
  expect(gate_.state().unsettled() == 0, "a lease is unsettled");
  for (const record& each : lives_)
    expect(each.ended || &each == &lives_.front(), "a frame was never destroyed");
  return broken_;
}

void forest::check_channel() {
  while (auto left = channel_.try_next())
    expect(read_.insert(**left).second, "a value was read, and is in the channel");
  for (const int value : taken_)
    expect(read_.contains(value), "a value that the channel took is lost");
}

task<void> forest::grow_and_check(forest* of, const plan* node, std::size_t caller) {
  const int value = co_await grow(of, node, caller);
  of->expect(value == node->id, "a task gave the value of another one");
}

task<int> forest::grow(forest* of, const plan* node, std::size_t caller) {
  life here(*of, caller);
  co_await perform(of, node, here.id());
  here.complete();
  co_return node->id;
}

task<void> forest::perform(forest* of, const plan* node, std::size_t self) {
  switch (node->what) {
  case deed::done:
    co_return;
  case deed::pause:
    co_return co_await pause(of, node->amount);
  case deed::give_way:
    co_return co_await yield();
  case deed::await:
    co_return co_await of->signal_.raised();
  case deed::push:
    co_return co_await push(of);
  case deed::take:
    co_return co_await take(of);
  case deed::mutate:
    co_return co_await mutate(of, node->amount);
  case deed::hand_over:
    co_return co_await hand_over(of, node->amount, self);
  case deed::blow_up:
    static_cast<void>(std::string().at(node->amount));
    co_return;
  case deed::call:
    co_return co_await call(of, node, self);
  case deed::join:
    co_return co_await join(of, node, self);
  case deed::leave:
    co_return co_await leave(of, node, self);
  case deed::all:
    co_return co_await all(of, node, self);
  case deed::first:
    co_return co_await first(of, node, self);
  case deed::limit:
    co_return co_await limit(of, node, self);
  case deed::shield:
    co_return co_await shield(of, node);
  case deed::work:
  case deed::listen:
  case deed::refuse:
  case deed::ask:
    ensure(false, "a forest has no actors");
  }
}

task<void> forest::pause(forest* of, unsigned amount) {
  const auto until = of->now_ + amount * unit;
  co_await detail::sleep_awaiter(amount * unit);
  of->expect(of->now_ >= until, "a sleeper woke early");
}

task<void> forest::push(forest* of) {
  const int value = of->next_value_++;
  auto owned = std::make_unique<int>(value);
  const bool pushed = co_await of->channel_.push(std::move(owned));
  if (pushed) of->taken_.insert(value);
}

task<void> forest::take(forest* of) {
  auto got = co_await of->channel_.next();
  if (got) of->expect(of->read_.insert(**got).second, "a value was read twice");
}

task<void> forest::mutate(forest* of, unsigned amount) {
  auto held = co_await of->gate_.enter();
  co_await pause(of, amount);
  held.release();
}

task<void> forest::hand_over(forest* of, unsigned amount, std::size_t self) {
  scope children;
  auto held = co_await of->gate_.enter();
  children.spawn(&forest::hold, of, std::move(held), amount, self);
  co_await mutate(of, amount / 2);
  if (amount % 2 == 0) co_await children.joined();
}

task<void> forest::hold(forest* of, lease given, unsigned amount, std::size_t caller) {
  life here(*of, caller);
  co_await pause(of, amount);
  given.release();
  here.complete();
}

task<void> forest::call(forest* of, const plan* node, std::size_t self) {
  for (const plan& child : node->children)
    co_await grow_and_check(of, &child, self);
}

task<void> forest::join(forest* of, const plan* node, std::size_t self) {
  scope children;
  for (const plan& child : node->children)
    children.spawn(&forest::grow_and_check, of, &child, self);
  co_await children.joined();
  of->expect(children.size() == 0, "a joined scope has children");
}

task<void> forest::leave(forest* of, const plan* node, std::size_t self) {
  scope children;
  for (const plan& child : node->children)
    children.spawn(&forest::grow_and_check, of, &child, self);
  co_await pause(of, node->amount);
}

task<void> forest::all(forest* of, const plan* node, std::size_t self) {
  const auto& sub = node->children;
  auto values =
      co_await when_all(grow(of, &sub[0], self), grow(of, &sub[1], self), grow(of, &sub[2], self));
  const auto& [one, two, three] = values;
  const bool right = one == sub[0].id && two == sub[1].id && three == sub[2].id;
  of->expect(right, "when_all mixed up its values");
}

task<void> forest::first(forest* of, const plan* node, std::size_t self) {
  const auto& sub = node->children;
  auto won =
      co_await first_of(grow(of, &sub[0], self), grow(of, &sub[1], self), grow(of, &sub[2], self));
  const int value = std::visit([](int made) { return made; }, won);
  of->expect(value == sub[won.index()].id, "first_of named another winner");
  of->expect(of->lives_[self].open_children == 0, "a loser outlives its first_of");
}

task<void> forest::limit(forest* of, const plan* node, std::size_t self) {
  const auto began = of->now_;
  const plan& sub = node->children[0];
  auto value = co_await with_deadline(grow(of, &sub, self), within(node->amount * unit));
  const bool late = !value && value.error().code == errc::timed_out;
  of->expect(late || *value == sub.id, "with_deadline gave another value");
  of->expect(!late || of->now_ >= began + node->amount * unit, "a deadline passed early");
  of->expect(of->lives_[self].open_children == 0, "what was late outlives its deadline");
}

/// What is shielded has no caller that it must not outlive.
task<void> forest::shield(forest* of, const plan* node) {
  const plan& sub = node->children[0];
  const int value = co_await shielded(grow(of, &sub, std::size_t(0)));
  of->expect(value == sub.id, "shielded gave another value");
}

} // namespace weir::test
