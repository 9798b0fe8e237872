/// The ready coroutines of one actor, and the only place that resumes any of them.
///
/// No coroutine resumes another one. Whoever makes a coroutine ready puts its node into this queue;
/// `drain` resumes the nodes one after the other. So the stack never grows, on any compiler; a
/// schedule is exactly the order of this queue; and a frame that dies while it is ready unlinks
/// itself. An awaited child and a returning callee go to the front (call order, as a function
/// would); what was woken goes to the back (first come, first served).
///
/// A queue belongs to one actor (its host) and is used on that actor's turn only.
#pragma once

#include "actors/runtime/detail/frame_pool.hpp"
#include "actors/runtime/detail/links.hpp"
#include "actors/runtime/detail/timer_heap.hpp"
#include "messages/error.hpp"

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace weir {

class blocking_pool;
enum class work_class : std::uint8_t;
class run_queue;
class scope;

namespace detail {

struct ready_tag;
struct live_tag;
struct departure_tag;
struct held_tag;
class promise_base;
class ask_table;

/// Told when a coroutine that it started has come to its end. May destroy the frame.
class child_observer {
public:
  virtual void finished(promise_base& child) noexcept = 0;

protected:
  ~child_observer() = default;
};

/// An awaiter that can say more about its wait than a literal: who was asked, since when. It lives
/// as long as the coroutine is suspended at it.
class described_wait {
public:
  [[nodiscard]] virtual std::string describe_wait(std::chrono::nanoseconds now) const = 0;

protected:
  ~described_wait() = default;
};

/// Something that an actor has collected and will send before its turn ends, or before it sends
/// anything else, so that what it sends to one receiver arrives in the order of sending.
class departure : public link<departure_tag> {
public:
  virtual void depart() noexcept = 0;

protected:
  ~departure() = default;
};

/// What every coroutine of ours has: its place in the queues, who waits for it, where it stands.
class promise_base : public bare_link<ready_tag>, public bare_link<live_tag> {
public:
  promise_base() = default;
  promise_base(const promise_base&) = delete;
  promise_base& operator=(const promise_base&) = delete;
  ~promise_base() {
    if (queue_ != nullptr) leave();
  }

  static void* operator new(std::size_t bytes) { return allocate_frame(frame_class(bytes)); }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    free_frame(frame, frame_class(bytes));
  }

  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  /// An exception of a library becomes the failure of the actor; nobody is resumed with it.
  void unhandled_exception() noexcept;

  /// Enters `queue`; `observer` is told of the end. `parent` started it, or is null.
  void start(run_queue& queue, promise_base* parent, child_observer* observer) noexcept;
  /// Enters the queue of `parent`, which called this one, owns it and goes on when it has ended.
  void start_called(promise_base& parent, std::source_location where) noexcept;
  /// One that was called has ended: it leaves its queue and its parent is ready. False, and nothing
  /// done, for any other one and for one that has failed: `complete` ends those.
  [[nodiscard]] bool return_to_parent() noexcept;
  /// Tells the observer. @pre suspended for good
  void complete() noexcept;
  /// The parent does not wait for this one: `caller` does, while it is not null, or nobody.
  void called_by(promise_base* const* caller) noexcept {
    caller_ = caller != nullptr ? caller : &nobody;
  }

  [[nodiscard]] run_queue& queue() const noexcept { return *queue_; }
  [[nodiscard]] const promise_base* parent() const noexcept { return parent_; }
  /// The coroutine that cannot go on before this one ends; null where nobody waits.
  [[nodiscard]] const promise_base* caller() const noexcept {
    return caller_ != nullptr ? *caller_ : parent_;
  }
  [[nodiscard]] const std::source_location& made_at() const noexcept { return made_at_; }
  [[nodiscard]] const std::source_location& waits_at() const noexcept { return waits_at_; }
  /// What this coroutine waits for, in words, or waited for if it is ready. @pre suspended
  [[nodiscard]] std::string waits_for(std::chrono::nanoseconds now) const;
  [[nodiscard]] bool ready() const noexcept;
  /// Only starts another coroutine: left out of what people read.
  [[nodiscard]] bool wraps() const noexcept { return wraps_; }
  /// `what` is a literal; `described` says more.
  void waiting(const char* what, std::source_location where,
               const described_wait* described = nullptr) noexcept {
    waits_for_ = what;
    waits_at_ = where;
    wait_ = described;
  }

protected:
  void made(std::coroutine_handle<> self, std::source_location where, bool wraps = false) noexcept {
    ensure(coroutine() == self, "the frame of a coroutine is known by the place of its base");
    made_at_ = where;
    wraps_ = wraps;
  }
  void destroy() noexcept { coroutine().destroy(); }

private:
  friend class weir::run_queue;

  /// Who waits for one for which nobody waits.
  static constexpr promise_base* nobody = nullptr;

  void leave() noexcept;
  [[nodiscard]] std::coroutine_handle<> coroutine() noexcept {
    return std::coroutine_handle<promise_base>::from_promise(*this);
  }
  [[nodiscard]] bool called() const noexcept { return observer_ == nullptr && parent_ != nullptr; }

  // A call sets few of these and a new one is zero but for `made_at_`: each store counts.
  run_queue* queue_ = nullptr;            ///< From the start to the end.
  promise_base* callee_ = nullptr;        ///< While this one waits for one that it called.
  promise_base* parent_ = nullptr;        ///< May be gone, unless it called this one.
  child_observer* observer_ = nullptr;    ///< Null in one that was called.
  promise_base* const* caller_ = nullptr; ///< Null: `parent_`.
  const described_wait* wait_ = nullptr; ///< Of the last wait that was no call; gone when it ended.
  const char* waits_for_ = nullptr;      ///< Null: its turn.
  std::source_location waits_at_;
  std::source_location made_at_;
  std::uint64_t age_ = 0; ///< See run_queue::by_age.
  bool wraps_ = false;
};

/// A lease in the hands of the coroutine that got it: what must not be held across a wait that a
/// barrier could prolong. Known from `run_queue::hold` until it is dropped: given back, or moved to
/// where nobody can tell who holds it.
class held_right : public link<held_tag> {
public:
  held_right() = default;
  void drop() noexcept { link<held_tag>::unlink(); }

private:
  friend class weir::run_queue;

  const promise_base* holder_ = nullptr;
  const char* what_ = "";
  std::source_location since_;
};

} // namespace detail

/// What a run queue needs from the actor it belongs to.
class run_queue_host {
public:
  /// Name of the actor, for texts.
  [[nodiscard]] virtual const std::string& host_name() const = 0;
  /// Monotonic time of the world.
  [[nodiscard]] virtual std::chrono::nanoseconds host_now() const = 0;
  /// Where its asks wait; null where nobody can be asked (plain tests of coroutines).
  [[nodiscard]] virtual detail::ask_table* host_asks() noexcept { return nullptr; }
  /// Where its blocking work runs.
  [[nodiscard]] virtual blocking_pool& host_pool(work_class kind) noexcept;
  /// A coroutine ended by an exception: the actor has failed.
  virtual void host_failed(error reason) noexcept = 0;

protected:
  ~run_queue_host() = default;
};

class run_queue {
public:
  /// A queue whose host is set before anything runs.
  run_queue() = default;
  explicit run_queue(run_queue_host& host) noexcept : host_(&host) {}
  run_queue(const run_queue&) = delete;
  run_queue& operator=(const run_queue&) = delete;
  /// @pre every coroutine of this queue is gone
  ~run_queue();

  /// Makes a suspended coroutine ready: `call` before all others, `wake` behind them, `defer` in
  /// the next round only (see next_round). @pre it is not ready: what it waits for does this once
  void call(detail::promise_base& ready) noexcept {
    if (next_ != nullptr) [[unlikely]]
      put_back_next();
    next_ = &ready;
  }
  void wake(detail::promise_base& ready) noexcept { ready_.push_back(ready); }
  void defer(detail::promise_base& ready) noexcept { deferred_.push_back(ready); }

  /// Resumes ready coroutines until none is left or `limit` were resumed; returns how many. None
  /// while the queue is halted.
  std::size_t drain(std::size_t limit);
  /// Nothing is resumed any more, until `go_on`: the actor has failed, and ends first what must not
  /// run on.
  void halt() noexcept { halted_ = true; }
  void go_on() noexcept { halted_ = false; }
  [[nodiscard]] bool ready() const noexcept { return next_ != nullptr || !ready_.empty(); }
  [[nodiscard]] bool deferred() const noexcept { return !deferred_.empty(); }
  /// Makes those ready that gave up the rest of their turn (`yield`).
  void next_round() noexcept { ready_.take_all(deferred_); }

  /// Has `collected` depart before this actor sends anything else, at the end of `drain` at last.
  void send_later(detail::departure& collected) noexcept { departures_.push_back(collected); }
  void send_collected() noexcept {
    // What departs is posted, and posting comes here first: the order stays that of collecting.
    if (departures_.empty() || departing_) return;
    departing_ = true;
    while (detail::departure* next = departures_.pop_front())
      next->depart();
    departing_ = false;
  }

  /// Null between two lives of an actor: nothing runs then.
  void set_host(run_queue_host* host) noexcept { host_ = host; }
  [[nodiscard]] run_queue_host& host() const noexcept { return *host_; }
  [[nodiscard]] std::chrono::nanoseconds now() const { return host_->host_now(); }
  [[nodiscard]] detail::timer_heap& timers() noexcept { return timers_; }
  [[nodiscard]] detail::frame_pool& frames() noexcept { return frames_; }
  /// The coroutine that runs at this moment, if any.
  [[nodiscard]] detail::promise_base* running() const noexcept { return running_; }
  /// A number that was not given out before by this queue: an answer to an earlier life of the
  /// actor, or to an earlier use of the same slot, is never taken for one to another.
  [[nodiscard]] std::uint64_t next_number() noexcept { return ++numbers_; }
  /// Notes that the coroutine that runs holds `right`; `what` is a literal.
  void hold(detail::held_right& right, const char* what, std::source_location since) noexcept;
  /// Ends the process if the coroutine that runs, or one that waits for it, holds a right: a
  /// barrier waits for each of them, so none may wait for `wait`, a literal.
  void ensure_nothing_held(const char* wait, std::source_location where) const {
    if (!held_.empty()) check_held(wait, where);
  }
  /// Where `shielded` puts what must not be cancelled; set by the actor.
  [[nodiscard]] scope* shield() const noexcept { return shield_; }
  void set_shield(scope* shield) noexcept { shield_ = shield; }

  /// Coroutines that were started and have neither ended nor been destroyed.
  [[nodiscard]] std::size_t live() const;
  /// The tree of suspended coroutines: one line each, with source locations and what it waits for.
  [[nodiscard]] std::string dump_tasks() const;
  /// " waits for a signal", " is ready", " runs".
  [[nodiscard]] std::string state_of(const detail::promise_base& task) const;
  /// Where the coroutine was made that runs at this moment; line 0 when none does. From any thread:
  /// what is known of an actor that does not come to an end with its turn.
  [[nodiscard]] std::source_location running_at() const noexcept {
    return running_at_.load(std::memory_order_relaxed);
  }

  /// The queue whose turn runs on this thread; null outside turns. Never kept across a suspension.
  [[nodiscard]] static run_queue* current() noexcept;

  /// Marks this thread as running a turn of `queue`, until it is destroyed.
  class turn {
  public:
    explicit turn(run_queue& queue) noexcept;
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    ~turn();

  private:
    run_queue* outer_;
  };

private:
  friend class detail::promise_base;

  void put_back_next() noexcept;
  template <class Visit>
  void each_live(Visit visit) const;
  void check_held(const char* wait, std::source_location where) const;
  void forget_holder(const detail::promise_base& gone) noexcept;
  /// All live coroutines: none before its parent, siblings in the order in which they were started.
  [[nodiscard]] std::vector<const detail::promise_base*> by_age() const;

  run_queue_host* host_ = nullptr;
  detail::frame_pool frames_;
  detail::timer_heap timers_;
  /// Before all of `ready_`. A call and a return pass through here alone: no list is touched.
  detail::promise_base* next_ = nullptr;
  detail::link_list<detail::promise_base, detail::ready_tag> ready_;
  detail::link_list<detail::promise_base, detail::ready_tag> deferred_;
  /// Live coroutines with an observer. One that was called is found from the one that called it.
  detail::link_list<detail::promise_base, detail::live_tag> observed_;
  std::uint64_t observed_ever_ = 0;
  detail::link_list<detail::departure, detail::departure_tag> departures_;
  detail::link_list<detail::held_right, detail::held_tag> held_;
  detail::promise_base* running_ = nullptr;
  std::atomic<std::source_location> running_at_ = {};
  bool departing_ = false;
  bool halted_ = false;
  scope* shield_ = nullptr;
  std::uint64_t numbers_ = 0;
};

namespace detail {

inline void promise_base::start_called(promise_base& parent, std::source_location where) noexcept {
  queue_ = parent.queue_;
  parent_ = &parent;
  age_ = queue_->observed_ever_;
  parent.callee_ = this;
  parent.waits_at_ = where;
  queue_->call(*this);
}

inline bool promise_base::return_to_parent() noexcept {
  if (observer_ != nullptr) [[unlikely]]
    return false;
  run_queue& queue = *queue_;
  if (!queue.held_.empty()) [[unlikely]]
    queue.forget_holder(*this);
  parent_->callee_ = nullptr;
  queue.call(*parent_);
  queue_ = nullptr;
  return true;
}

inline bool promise_base::ready() const noexcept {
  return bare_link<ready_tag>::linked() || (queue_ != nullptr && queue_->next_ == this);
}

/// For a kind of wait that no lease may be held across.
inline void ensure_without_lease(const char* wait, std::source_location where) {
  if (const run_queue* queue = run_queue::current()) queue->ensure_nothing_held(wait, where);
}

} // namespace detail
} // namespace weir
