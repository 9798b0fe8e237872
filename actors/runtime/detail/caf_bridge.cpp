/// The only file that includes CAF: actors of ours as scheduled entities of a CAF system.
///
/// A `cell` is a CAF actor with a mailbox of its own: CAF's lock-free LIFO inbox, read in order.
/// It has no behaviour and matches no patterns: its one message type is a parcel, and its turn is
/// "read a parcel, drain the run queue" until both are empty. That, and own request slots over
/// plain sends, is why an ask costs no more than CAF's request().then().
///
/// What changes for CAF 1.x: the allowed-unsafe macro becomes a type id block; make_mailbox_element
/// takes a message; `enqueue` returns bool and takes a scheduler; atom("stealing") becomes a
/// string; `caf::local_actor` becomes `caf::abstract_scheduled_actor` or a custom one.
#include "actors/runtime/detail/caf_bridge.hpp"

#include "actors/runtime/detail/graph_core.hpp"
#include "actors/runtime/detail/lives.hpp"
#include "actors/runtime/detail/simulated_scheduler.hpp"
#include "messages/block_pool.hpp"

#include <caf/actor_clock.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/exit_reason.hpp>
#include <caf/intrusive/inbox_result.hpp>
#include <caf/intrusive/lifo_inbox.hpp>
#include <caf/local_actor.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/make_actor.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <atomic>
#include <optional>
#include <typeinfo>

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(weir::detail::parcel)

namespace weir::detail {
namespace {

caf::actor_control_block* block_of(const address& where) noexcept {
  return static_cast<caf::actor_control_block*>(where.mailbox());
}

/// What carries a parcel: made by one thread and freed by another, so its memory is recycled.
class parcel_element final : public caf::mailbox_element,
                             public caf::detail::tuple_vals_impl<caf::type_erased_tuple, parcel> {
  using values = caf::detail::tuple_vals_impl<caf::type_erased_tuple, parcel>;

public:
  parcel_element(const address& from, parcel&& sent)
      : caf::mailbox_element(caf::strong_actor_ptr(block_of(from)), caf::make_message_id(), {}),
        values(std::move(sent)) {}

  static void* operator new(std::size_t bytes) { return take_block(bytes); }
  static void operator delete(void* memory) noexcept { give_block(memory, sizeof(parcel_element)); }

  [[nodiscard]] parcel& value() noexcept { return std::get<0>(data()); }

  caf::type_erased_tuple& content() override { return *this; }
  const caf::type_erased_tuple& content() const override { return *this; }
  caf::message move_content_to_message() override { return caf::make_message(std::move(value())); }
  caf::message copy_content_to_message() const override {
    return caf::make_message(std::get<0>(data()));
  }
};

caf::mailbox_element_ptr wrap(const address& from, parcel&& sent) {
  return caf::mailbox_element_ptr(new parcel_element(from, std::move(sent)));
}

/// Null for a message of CAF itself.
parcel* parcel_of(caf::mailbox_element& element) noexcept {
  if (typeid(element) != typeid(parcel_element)) return nullptr;
  return &static_cast<parcel_element&>(element).value();
}

address address_of(const caf::strong_actor_ptr& pointer) noexcept {
  if (pointer == nullptr) return address();
  caf::strong_actor_ptr counted = pointer;
  return address(counted.release());
}

/// Ends an element that nobody read: a request is refused, so that its asker need not wait.
struct undelivered {
  void operator()(caf::mailbox_element* element) const {
    const caf::mailbox_element_ptr owned(element);
    const parcel* unread = parcel_of(*element);
    if (unread == nullptr) return;
    refuse_unread(address_of(element->sender), *unread,
                  error{errc::unavailable, "the actor has ended"});
  }
};

struct inbox_policy {
  using mapped_type = caf::mailbox_element;
  using unique_pointer = std::unique_ptr<caf::mailbox_element, undelivered>;
};

std::atomic<std::size_t> cells_alive = 0;

class cell final : public caf::local_actor, public caf::resumable, public runnable {
public:
  cell(caf::actor_config& config, shared_name name, simulated_scheduler* schedule)
      : caf::local_actor(config), name_(std::move(name)), schedule_(schedule),
        number_(schedule != nullptr ? schedule->enter(*name_) : 0) {
    ++cells_alive;
  }
  cell(const cell&) = delete;
  cell& operator=(const cell&) = delete;
  ~cell() override {
    drop_unread();
    --cells_alive;
  }

  [[nodiscard]] const shared_name& shared() const noexcept { return name_; }
  [[nodiscard]] run_queue& queue() noexcept { return queue_; }

  [[nodiscard]] actor* body() const noexcept { return lives_.body(); }

  void begin(std::unique_ptr<actor> first, body_factory next) {
    lives_.begin(std::move(first), std::move(next));
    schedule(nullptr);
  }

  /// Ends without a turn; null: nobody could be made for this mailbox.
  void discard(std::unique_ptr<actor> body) {
    if (inbox_.closed()) return;
    const run_queue::turn turn(queue_);
    if (body == nullptr) return close();
    lives_.begin(std::move(body), nullptr);
    end();
  }

  void kill() {
    if (!lives_.begun()) return;
    const run_queue::turn turn(queue_);
    end();
  }

  // caf::local_actor
  const char* name() const override { return name_->c_str(); }
  void launch(caf::execution_unit*, bool, bool) override {}
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* unit) override {
    const auto outcome = inbox_.push_front(inbox_policy::unique_pointer(element.release()));
    if (outcome == caf::intrusive::inbox_result::unblocked_reader) schedule(unit);
  }

  // caf::resumable
  subtype_t subtype() const override { return resumable::scheduled_actor; }
  void intrusive_ptr_add_ref_impl() override { caf::intrusive_ptr_add_ref(ctrl()); }
  void intrusive_ptr_release_impl() override { caf::intrusive_ptr_release(ctrl()); }
  resume_result resume(caf::execution_unit* unit, size_t limit) override;

  // runnable: turns of a simulation
  [[nodiscard]] bool take_turn() override;
  void dismissed() noexcept override { intrusive_ptr_release_impl(); }

private:
  static constexpr std::size_t resumptions_per_message = 1024;

  void schedule(caf::execution_unit* unit) {
    intrusive_ptr_add_ref_impl(); // the scheduler gives it back
    if (schedule_ != nullptr)
      schedule_->ready(*this);
    else if (unit != nullptr)
      unit->exec_later(this);
    else
      home_system().scheduler().enqueue(this);
  }
  [[nodiscard]] caf::mailbox_element_ptr next();
  void read(caf::mailbox_element& element);
  /// Nothing to read: rests, unless something came in between.
  [[nodiscard]] std::optional<resume_result> rest();
  void arm_wake();
  [[nodiscard]] static std::uint32_t number_of(const detail::address& where) noexcept;
  void end();
  /// Nothing is taken any more, and what was not read is refused; while CAF's system lives: it must
  /// not find an open mailbox when the last reference goes.
  void close();
  void drop_unread();

  shared_name name_;
  simulated_scheduler* const schedule_; ///< Null where CAF's threads run the turns.
  const std::uint32_t number_;          ///< In the trace of a simulation.
  run_queue queue_;
  lives lives_{queue_};
  caf::intrusive::lifo_inbox<inbox_policy> inbox_;
  caf::mailbox_element* read_next_ = nullptr; ///< Taken from the inbox, in order.
  std::optional<std::chrono::nanoseconds> wake_at_;
  bool started_ = false;
};

caf::mailbox_element_ptr cell::next() {
  if (read_next_ == nullptr) {
    // Newest first: turn it round.
    auto* taken = inbox_.take_head();
    while (taken != nullptr) {
      auto* older = inbox_.promote(taken->next);
      taken->next = read_next_;
      read_next_ = taken;
      taken = older;
    }
  }
  if (read_next_ == nullptr) return nullptr;
  caf::mailbox_element_ptr element(read_next_);
  read_next_ = inbox_.promote(element->next);
  return element;
}

void cell::read(caf::mailbox_element& element) {
  parcel* came = parcel_of(element);
  if (came == nullptr)
    return; // a message of CAF itself (down, exit): the graph ends actors, nobody else
  if (came->kind == parcel_kind::wake) wake_at_.reset();
  const detail::address from(element.sender.release());
  if (schedule_ != nullptr) [[unlikely]]
    schedule_->trace(number_of(from), number_, *came);
  lives_.receive(from, *came);
}

caf::resumable::resume_result cell::resume(caf::execution_unit* unit, size_t limit) {
  context(unit);
  const run_queue::turn turn(queue_);
  if (!std::exchange(started_, true)) lives_.start();
  for (std::size_t handled = 0; handled < limit; ++handled) {
    queue_.drain(resumptions_per_message);
    if (lives_.over()) {
      end();
      return done;
    }
    if (auto element = next()) {
      read(*element);
      continue;
    }
    if (queue_.ready()) break;
    if (const auto rested = rest()) return *rested;
  }
  return resume_later;
}

bool cell::take_turn() {
  if (!lives_.begun()) return false; // killed while it waited for its turn
  const run_queue::turn turn(queue_);
  if (!std::exchange(started_, true))
    lives_.start();
  else if (auto element = next())
    read(*element);
  queue_.drain(resumptions_per_message);
  if (lives_.over()) {
    end();
    return false;
  }
  return read_next_ != nullptr || queue_.ready() || rest() != awaiting_message;
}

std::optional<caf::resumable::resume_result> cell::rest() {
  arm_wake();
  if (queue_.deferred()) {
    queue_.next_round();
    return resume_later;
  }
  if (inbox_.try_block()) return awaiting_message; // another thread may run this actor from here on
  return std::nullopt;
}

void cell::arm_wake() {
  auto& timers = queue_.timers();
  if (timers.empty() || (wake_at_ && *wake_at_ <= timers.earliest())) return;
  wake_at_ = timers.earliest();
  if (schedule_ != nullptr) {
    schedule_->wake_at(*wake_at_, address_of(caf::strong_actor_ptr(ctrl())));
    return;
  }
  parcel wake;
  wake.kind = parcel_kind::wake;
  const caf::actor_clock::time_point due(
      std::chrono::duration_cast<caf::actor_clock::duration_type>(*wake_at_));
  home_system().clock().schedule_message(due, caf::strong_actor_ptr(ctrl()),
                                         wrap(detail::address(), std::move(wake)));
}

void cell::end() {
  // Kept until the last line: the graph may go once it was told.
  const auto graph = lives_.graph();
  lives_.end();
  close();
  graph->ended(*name_);
}

void cell::close() {
  drop_unread();
  undelivered refuse;
  inbox_.close(refuse);
  cleanup(caf::exit_reason::normal, context());
}

void cell::drop_unread() {
  while (read_next_ != nullptr) {
    auto* unread = read_next_;
    read_next_ = inbox_.promote(unread->next);
    undelivered()(unread);
  }
}

cell* cell_of(const address& where) noexcept {
  // Every address of ours was made by open_mailbox.
  return static_cast<cell*>(block_of(where)->get());
}

std::uint32_t cell::number_of(const detail::address& where) noexcept {
  return where ? cell_of(where)->number_ : 0;
}

} // namespace

void address::retain() noexcept {
  if (mailbox_ != nullptr) caf::intrusive_ptr_add_ref(block_of(*this));
}

void address::release() noexcept {
  caf::intrusive_ptr_release(block_of(*this));
}

void post(const address& to, const address& from, parcel&& sent) {
  caf::execution_unit* unit = nullptr;
  if (from && run_queue::current() == &cell_of(from)->queue()) {
    cell_of(from)->queue().send_collected();
    unit = cell_of(from)->context();
  }
  block_of(to)->enqueue(wrap(from, std::move(sent)), unit);
}

std::size_t mailboxes_alive() noexcept {
  return cells_alive;
}

std::string name_of(const address& where) {
  return where ? *cell_of(where)->shared() : std::string("nobody");
}

run_queue& queue_of(const address& where) noexcept {
  return cell_of(where)->queue();
}

actor* body_of(const address& where) noexcept {
  return cell_of(where)->body();
}

struct mailbox_system::parts {
  parts(scheduler_options options, simulated_scheduler* simulated)
      : schedule(simulated), system(configure(config, options, simulated != nullptr)) {}

  static caf::actor_system_config& configure(caf::actor_system_config& config,
                                             scheduler_options options, bool simulated) {
    if (simulated) {
      // CAF's coordinator for tests has no thread; none of our turns goes through it.
      config.set("scheduler.policy", caf::atom("testing"));
      return config;
    }
    config.set("scheduler.policy", caf::atom("stealing"));
    config.set("scheduler.max-threads", options.workers);
    // An idle worker sleeps until it is given work, at once: CAF would have it look for work 500
    // times first, 50 us apart, and the timers alone take a tenth of a core from the policy. It
    // still looks around once a millisecond, for work that a busy neighbour could not begin.
    config.set("work-stealing.moderate-poll-attempts", 0);
    config.set("work-stealing.relaxed-sleep-duration", caf::timespan(1'000'000));
    return config;
  }

  simulated_scheduler* schedule;
  caf::actor_system_config config;
  caf::actor_system system;
};

mailbox_system::mailbox_system(scheduler_options options, simulated_scheduler* schedule)
    : parts_(std::make_unique<parts>(options, schedule)) {}

mailbox_system::~mailbox_system() = default;

address mailbox_system::open_mailbox(shared_name name) {
  auto& system = parts_->system;
  caf::actor_config config;
  auto made = caf::make_actor<cell, caf::strong_actor_ptr>(
      system.next_actor_id(), system.node(), &system, config, std::move(name), parts_->schedule);
  return address(made.release());
}

void mailbox_system::launch(const address& where, std::unique_ptr<actor> first, body_factory next) {
  cell_of(where)->begin(std::move(first), std::move(next));
}

void mailbox_system::kill(const address& where) {
  cell_of(where)->kill();
}

void mailbox_system::discard(const address& where, std::unique_ptr<actor> owner) {
  cell_of(where)->discard(std::move(owner));
}

} // namespace weir::detail
