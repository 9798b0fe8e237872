/// `actor`: the base of everything that answers messages.
///
/// An actor derives from this class, registers its handlers in its constructor (`serve`), and may
/// override `run`, its own coroutine. Handlers and `run` are coroutines of one run queue: one runs
/// at a time, others interleave at `co_await` only.
///
/// Life: constructed by the graph, on a turn of its own (so scopes and channels may be members);
/// started by `graph::start`; ended by `graph::stop`, by a failure of its own, or with the graph.
/// Ending cancels the root scope, answers what is left (errc::unavailable after a failure, else
/// errc::cancelled), waits for `shielded` work, and destroys the actor. Members of derived classes
/// outlive the coroutines of the root scope; everything is destroyed on the actor's turn. A
/// supervised actor (`graph::supervise`) that fails is constructed anew, behind the same handles.
#pragma once

#include "actors/runtime/channel.hpp"
#include "actors/runtime/combinators.hpp"
#include "actors/runtime/context.hpp"
#include "actors/runtime/detail/handler.hpp"
#include "actors/runtime/detail/stream_table.hpp"
#include "actors/runtime/gate.hpp"
#include "actors/runtime/handle.hpp"
#include "actors/runtime/scope.hpp"
#include "actors/runtime/watchdog_state.hpp"
#include "actors/runtime/world.hpp"

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace weir {

/// Counters of one actor that must be zero when nothing is under way.
struct actor_counters {
  std::size_t live_coroutines = 0;
  std::size_t pending_asks = 0;
  std::size_t unsettled_leases = 0;
  std::size_t open_streams = 0;
  std::uint64_t late_answers = 0; ///< Came after their asker was gone; only counted.
};

/// Who takes part in barriers, by name, in the order of addition.
struct graph_roster {
  std::vector<std::string> origins;
  std::vector<std::string> owners;
};

class actor : private run_queue_host {
public:
  actor(const actor&) = delete;
  actor& operator=(const actor&) = delete;
  virtual ~actor();

  [[nodiscard]] const std::string& name() const noexcept { return ctx_.name(); }

protected:
  explicit actor(context ctx);

  /// Registers the handler of a request or a note, by its type. One of
  ///   task<result<message<Reply>>> on_x(message<Request>)              a request
  ///   task<result<message<Reply>>> on_x(lease_ref, message<Request>)   a mutating request
  ///   task<void>                   on_x(message<Note>)                 a note
  /// A later registration of the same type replaces an earlier one.
  template <class Self, class Reply, class Request>
  void serve(task<result<message<Reply>>> (Self::*handler)(message<Request>)) {
    static_assert(needs_no_lease<Request>, "the handler of a mutating request takes a lease_ref");
    add(std::make_unique<detail::call_handler<Self, Reply, Request>>(static_cast<Self*>(this),
                                                                     handler));
  }
  template <class Self, class Reply, class Request>
  void serve(task<result<message<Reply>>> (Self::*handler)(lease_ref, message<Request>)) {
    static_assert(needs_a_lease<Request>, "only a mutating request comes with a lease_ref");
    add(std::make_unique<detail::leased_handler<Self, Reply, Request>>(static_cast<Self*>(this),
                                                                       handler));
  }
  template <class Self, class Note>
  void serve(task<void> (Self::*handler)(message<Note>)) {
    static_assert(needs_no_lease<Note>, "a note is never mutating: nobody would know it arrived");
    add(std::make_unique<detail::note_handler<Self, Note>>(static_cast<Self*>(this), handler));
  }

  /// Anything else is no handler.
  template <class Handler>
  void serve(Handler) {
    static_assert(!std::is_same_v<Handler, Handler>,
                  "a handler takes its message by value, a mutating one after a lease_ref, and "
                  "returns task<result<message<Reply>>>, or task<void> for a note");
  }

  /// Looks at the graph that this actor was added to, before anything starts; an error is that of
  /// `graph::start`. By default all is well.
  [[nodiscard]] virtual result<void> check_graph(const graph_roster& all) const;
  /// The actor's own coroutine, spawned in the root scope when the graph starts.
  virtual task<void> run();

  /// Whether a leased request may be handled at all; asked before its handler starts. An error is
  /// its answer, and nothing is remembered of it.
  [[nodiscard]] virtual result<void> admissible(const lease_ref& lease) const;

  /// The root scope: its children end with the actor.
  [[nodiscard]] scope& children() noexcept { return root_; }
  [[nodiscard]] world& env() const noexcept { return ctx_.env(); }
  [[nodiscard]] const weir::clock& clock() const noexcept { return ctx_.env().clock(); }
  [[nodiscard]] incarnation life() const noexcept { return ctx_.life(); }
  /// @pre this actor is an origin
  [[nodiscard]] mutation_gate& mutations() noexcept;
  void log(log_level level, std::string_view text) const { env().log(level, name(), text); }

  /// Ends this life of the actor: its coroutines are cancelled once the one that runs suspends or
  /// ends. The graph reports the first failure with its actor, and with it the incarnation ends;
  /// a supervised actor is restarted instead.
  void fail(error reason);
  /// Declares the run complete: `graph::wait_blocking` returns.
  void finish_run();

  [[nodiscard]] actor_counters counters() const;

private:
  friend class detail::actor_access;
  friend std::string dump_tasks(const actor& dumped);

  [[nodiscard]] const std::string& host_name() const override { return ctx_.name(); }
  [[nodiscard]] std::chrono::nanoseconds host_now() const override {
    return std::chrono::nanoseconds(clock().now());
  }
  [[nodiscard]] detail::ask_table* host_asks() noexcept override { return &asks_; }
  [[nodiscard]] blocking_pool& host_pool(work_class kind) noexcept override {
    return env().pool(kind);
  }
  void host_failed(error reason) noexcept override;

  void add(std::unique_ptr<detail::handler> handler);
  void receive(const detail::address& from, detail::parcel& came);
  void receive_frame(const detail::address& from, detail::parcel& came);
  void serve_request(const detail::address& from, frame& request);
  [[nodiscard]] bool admit_leased(const detail::request_origin& origin);
  /// Takes over a frame that no handler is registered for: `detail::relay_actor`. False: it is
  /// refused.
  [[nodiscard]] virtual bool relay_frame(detail::request_origin& asked, frame& request);
  void begin_stop();
  [[nodiscard]] error unanswered() const;
  [[nodiscard]] std::vector<long_wait> long_waits(std::chrono::nanoseconds age) const;

  // Services first, then state, scopes last: they are destroyed first.
  context ctx_;
  run_queue& queue_;
  std::optional<mutation_gate> gate_;
  detail::ask_table asks_;
  detail::stream_table streams_;
  detail::reply_memory replies_;
  std::unordered_map<std::uint32_t, std::unique_ptr<detail::handler>> handlers_;
  bool stopping_ = false;
  bool failed_ = false;
  bool broken_ = false;           ///< By an exception: what is shielded cannot be finished either.
  std::optional<error> ends_for_; ///< The failure, or why the supervisor ends this life.
  scope shield_;
  scope root_;
};

/// The tree of an actor's suspended coroutines, one a line: function, place, and what it waits for.
/// On that actor's turn only; from anywhere else: `graph::dump_tasks`.
[[nodiscard]] std::string dump_tasks(const actor& dumped);

} // namespace weir
