#include "tests/property/gardener.hpp"

#include "actors/runtime/offload.hpp"
#include "actors/runtime/stream.hpp"
#include "messages/message.hpp"

namespace weir::test {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::microseconds unit(100);

/// Counts itself while its frame lives.
class presence {
public:
  explicit presence(garden& of) : of_(of) { ++of_.begun; }
  presence(const presence&) = delete;
  presence& operator=(const presence&) = delete;
  ~presence() { ++of_.ended; }

private:
  garden& of_;
};

/// Some deadlines pass, most do not.
deadline_after patience(const plan& node) {
  return node.amount % 4 == 3 ? within(node.amount * unit / 4) : within(5s);
}

} // namespace

void garden::add(const plan& tree) {
  const auto place = static_cast<std::size_t>(tree.id);
  if (nodes.size() <= place) nodes.resize(place + 1);
  nodes[place] = &tree;
  for (const plan& child : tree.children)
    add(child);
}

gardener::gardener(context ctx, garden& shared)
    : actor(ctx), shared_(shared), self_(std::move(ctx)) {
  serve(&gardener::on_grow);
  serve(&gardener::on_reserve);
  serve(&gardener::on_generate);
  serve(&gardener::on_close);
}

std::string gardener::name_of(std::size_t number) {
  return "gardener-" + std::to_string(number);
}

handle<gardener_protocol> gardener::peer(const plan& node) const {
  const std::size_t number = static_cast<std::size_t>(node.id) % shared_.gardeners;
  return self_.find<gardener_protocol>(name_of(number));
}

task<gardener::grown> gardener::on_grow(message<RequestCheckpoint> request) {
  const plan* node = shared_.nodes[static_cast<std::size_t>(request->step())];
  co_await grow(node);
  if (node->what == deed::refuse) co_return failure(errc::exhausted, "no more trees");
  CheckpointPublishedT answer;
  answer.step = static_cast<std::uint64_t>(node->id);
  co_return pack(answer);
}

task<result<message<BatchReserved>>> gardener::on_reserve(lease_ref, message<ReserveBatch> want) {
  const presence here(shared_);
  co_await clock().after(want->count() * unit);
  co_return pack(BatchReservedT());
}

task<result<message<GenerationAccepted>>> gardener::on_generate(message<GenerateGroup> request) {
  children().spawn(&gardener::emit, this, request);
  co_return pack(GenerationAcceptedT());
}

task<void> gardener::emit(message<GenerateGroup> request) {
  const presence here(shared_);
  auto tokens = connect<TokenBatch>(*this, request->stream());
  for (std::uint32_t i = 0; i < request->siblings(); ++i) {
    auto pushed = co_await tokens.push(pack(TokenBatchT()));
    if (!pushed) co_return;
  }
  if (request->siblings() % 2 == 0) tokens.finish();
}

/// A barrier that nobody resumes: the gate opens by itself.
task<void> gardener::on_close(message<StopGroup>) {
  std::ignore = mutations().close({1, 1, next_epoch_++}, 2 * unit);
  co_return;
}

task<void> gardener::grow(const plan* node) {
  const presence here(shared_);
  co_await perform(node);
}

task<void> gardener::perform(const plan* node) {
  switch (node->what) {
  case deed::pause:
    co_return co_await clock().after(node->amount * unit);
  case deed::give_way:
    co_return co_await yield();
  case deed::mutate:
    co_return co_await mutate(node);
  case deed::hand_over:
    co_return co_await shielded(mutate(node));
  case deed::work:
    co_return co_await work();
  case deed::listen:
    co_return co_await listen(node);
  case deed::blow_up:
    static_cast<void>(std::string().at(node->amount));
    co_return;
  case deed::ask:
    co_return co_await ask(node);
  case deed::call:
    co_return co_await call(node);
  case deed::join:
  case deed::leave:
    co_return co_await children_of(node);
  case deed::all:
    co_return co_await all(node);
  case deed::first:
    co_return co_await first(node);
  case deed::limit:
    co_return co_await limit(node);
  case deed::shield:
    co_return co_await shielded(grow(&node->children[0]));
  default:
    co_return;
  }
}

task<void> gardener::ask(const plan* node) {
  const plan& child = node->children[0];
  RequestCheckpointT want;
  want.step = child.id;
  const auto asked = peer(child);
  auto answer = co_await asked.ask(pack(want), patience(*node));
  if (!answer) co_return;
  if ((*answer)->step() != static_cast<std::uint64_t>(child.id)) ++shared_.wrong_answers;
}

task<void> gardener::mutate(const plan* node) {
  auto held = co_await mutations().enter();
  const auto asked = peer(*node);
  for (unsigned step = 0; step <= node->amount % 3; ++step) {
    ReserveBatchT want;
    want.count = node->amount / 4;
    auto answer = co_await asked.ask(held, pack(want), patience(*node));
    if (!answer) co_return;
  }
  held.release();
}

task<void> gardener::listen(const plan* node) {
  auto tokens = open_stream<TokenBatch>(*this, 1 + node->amount % 3);
  GenerateGroupT want;
  want.siblings = node->amount;
  want.stream = std::make_unique<StreamRefT>(tokens.id());
  const auto asked = peer(*node);
  auto accepted = co_await asked.ask(pack(want), patience(*node));
  const unsigned wanted = node->amount % 3 == 0 ? node->amount / 2 : node->amount + 1;
  for (unsigned seen = 0; accepted && seen < wanted; ++seen) {
    auto item = co_await tokens.next(within(50 * unit));
    if (!item || !*item) break;
  }
}

task<void> gardener::work() {
  const auto job = [] { return std::string("done"); };
  const std::string said = co_await offload(job);
  if (said != "done") ++shared_.wrong_answers;
}

task<void> gardener::call(const plan* node) {
  for (const plan& child : node->children)
    co_await grow(&child);
}

task<void> gardener::children_of(const plan* node) {
  scope growing;
  for (const plan& child : node->children)
    growing.spawn(&gardener::grow, this, &child);
  if (node->what == deed::join)
    co_await growing.joined();
  else
    co_await clock().after(node->amount * unit);
}

task<void> gardener::all(const plan* node) {
  const auto& sub = node->children;
  co_await when_all(grow(&sub[0]), grow(&sub[1]), grow(&sub[2]));
}

task<void> gardener::first(const plan* node) {
  const auto& sub = node->children;
  auto won = co_await first_of(grow(&sub[0]), grow(&sub[1]), grow(&sub[2]));
  if (won.index() > 2) ++shared_.wrong_answers;
}

task<void> gardener::limit(const plan* node) {
  auto ended = co_await with_deadline(grow(&node->children[0]), within(node->amount * unit));
  if (!ended && ended.error().code != errc::timed_out) ++shared_.wrong_answers;
}

task<void> crowd::run() {
  scope planting;
  for (const int root : roots_)
    planting.spawn(&crowd::plant, this, root);
  co_await clock().after(3 * unit);
  for (std::size_t number = 0; number < shared_.gardeners; ++number)
    self_.find<gardener_protocol>(gardener::name_of(number)).tell(pack(StopGroupT()));
  co_await planting.joined();
  finish_run();
}

task<void> crowd::plant(int root) {
  const auto at = static_cast<std::size_t>(root) % shared_.gardeners;
  const auto asked = self_.find<gardener_protocol>(gardener::name_of(at));
  RequestCheckpointT want;
  want.step = root;
  auto answer = co_await asked.ask(pack(want), within(10s));
  const bool right = !answer || (*answer)->step() == static_cast<std::uint64_t>(root);
  if (!right) ++shared_.wrong_answers;
}

} // namespace weir::test
