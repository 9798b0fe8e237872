/// Composing a system from named actors: what a driver program's `main` uses.
///
///   weir::world env;
///   weir::graph run(env);
///   auto replay = run.add<weir::replay>("replay", replay_options);
///   auto trainer = run.add<weir::trainer>("trainer", trainer_options, replay);
///   if (auto started = run.start(); !started) return report(started.error());
///   auto ended = run.wait_blocking();
///
/// Actors start in the order in which they were added and stop in reverse. An actor that fails ends
/// the run: `wait_blocking` returns its error, with its name; the driver stops the graph and, where
/// a bundle exists, builds the next incarnation.
#pragma once

#include "actors/runtime/actor.hpp"
#include "actors/runtime/detail/actor_access.hpp"
#include "actors/runtime/detail/blocking_call.hpp"
#include "actors/runtime/detail/caf_bridge.hpp"
#include "actors/runtime/detail/graph_core.hpp"
#include "actors/runtime/detail/packet.hpp"
#include "actors/runtime/supervisor.hpp"
#include "actors/runtime/watchdog.hpp"

#include <concepts>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir {

namespace detail {
struct open_border;
} // namespace detail

struct graph_options {
  /// Scheduler threads.
  std::size_t workers = 2;
  /// Number of this life of the run: frames of another one are refused, and it is the instance of
  /// every origin.
  incarnation life = incarnation(1);
  /// How long one actor may take to end before `stop` gives up on it.
  std::chrono::nanoseconds stop_limit = std::chrono::seconds(5);
};

/// Passed after the name: the actor is an origin, and gets a mutation gate. A type may say
/// `static constexpr bool is_origin = true;` (or `is_owner`) instead.
struct origin_tag {};
inline constexpr origin_tag origin{};
/// Passed after the name: the actor holds durable state and answers `owner_protocol`.
struct owner_tag {};
inline constexpr owner_tag owner{};

/// What has happened between this graph and others.
struct border_counters {
  std::uint64_t connections = 0;    ///< That stand, of both directions.
  std::uint64_t lost_peers = 0;     ///< Gone without having closed a graph, or cut off.
  std::uint64_t refused_frames = 0; ///< Garbage, damage, or an answer of the wrong type.
};

/// The handles that an actor was given, as the graph checks and draws them. An argument that is a
/// handle is found by itself; a struct that holds handles has a member
/// `template <class Wiring> void wire(Wiring& wiring) const` which tells them.
class wiring {
public:
  /// Must refer to an actor, or the graph does not start.
  template <class Protocol>
  void needs(const handle<Protocol>& to) {
    if (to)
      handles_.push_back(to.where());
    else if (!unset_)
      unset_ = argument_;
  }
  template <class Protocol>
  void needs_each(const std::vector<handle<Protocol>>& to) {
    for (const handle<Protocol>& each : to)
      needs(each);
  }
  /// May be empty.
  template <class Protocol>
  void may_use(const handle<Protocol>& to) {
    if (to) handles_.push_back(to.where());
  }
  /// The actor leads a barrier: every origin and owner of the graph must be named here.
  void barrier_over(std::vector<std::string> origins, std::vector<std::string> owners) {
    barrier_ = {std::move(origins), std::move(owners)};
  }

private:
  friend class graph;
  struct barrier {
    std::vector<std::string> origins;
    std::vector<std::string> owners;
  };

  void next_argument() { ++argument_; }

  std::size_t argument_ = 0;
  std::optional<std::size_t> unset_; ///< The first argument that holds a handle of nobody.
  std::vector<detail::address> handles_;
  std::optional<barrier> barrier_;
};

template <class T>
concept actor_type = std::derived_from<T, actor> && requires { typename T::protocol; };

/// No state that outlives it: the actor is no origin, no owner and answers no mutating request.
/// The death of one that has ends the incarnation.
template <class T>
concept restartable_actor = actor_type<T> && !requires { requires T::is_origin; } && !requires {
  requires T::is_owner;
} && !T::protocol::has_mutating_request;

/// Actors that are restarted in place when they fail: made by `graph::supervise`. Copyable.
class supervised_group {
public:
  [[nodiscard]] const std::string& name() const noexcept { return members_->name; }

private:
  friend class graph;
  explicit supervised_group(std::shared_ptr<detail::group_members> members) noexcept
      : members_(std::move(members)) {}

  std::shared_ptr<detail::group_members> members_;
};

class graph {
public:
  explicit graph(world& env, graph_options options = {});
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  /// Stops what still runs. An actor that does not end is a bug: it is named, and the process ends.
  ~graph();

  /// Makes an actor `T(context, arguments...)` and returns its handle. Tags come first. A name that
  /// is taken and a constructor that throws are errors of `start`. @pre not started
  template <actor_type T, class... Args>
  handle<typename T::protocol> add(std::string name, Args&&... args) {
    return add_as<T>(std::move(name), traits_of<T>(), std::forward<Args>(args)...);
  }

  /// Makes a group whose actors are restarted in place, and its supervisor, an actor named `name`.
  /// With `within`, the group is a member of another one: when it gives up, it is restarted whole.
  /// Otherwise that is a failure of the graph.
  [[nodiscard]] supervised_group supervise(std::string name, supervision_options how = {});
  [[nodiscard]] supervised_group supervise(const supervised_group& within, std::string name,
                                           supervision_options how = {});
  /// Makes an actor of a group. The arguments are copied and kept: each life is made from them
  /// anew. The handle stays valid from life to life; requests that were under way when the actor
  /// failed, and those that come before its restart, are answered with errc::unavailable.
  template <actor_type T, class... Args>
  handle<typename T::protocol> add(const supervised_group& group, std::string name, Args... args) {
    static_assert(restartable_actor<T> && !(std::is_same_v<Args, origin_tag> || ...) &&
                      !(std::is_same_v<Args, owner_tag> || ...),
                  "an actor with durable state is not restarted: its death ends the incarnation");
    member added = open(std::move(name), {});
    (note_argument(added, args), ...);
    const context ctx = join(*group.members_, added);
    added.make = [ctx, kept = std::make_tuple(std::move(args)...)] {
      const auto make = [&ctx](const Args&... arg) { return std::make_unique<T>(ctx, arg...); };
      return std::unique_ptr<actor>(std::apply(make, kept));
    };
    handle<typename T::protocol> made(added.where);
    make_first(added);
    enter(std::move(added));
    return made;
  }

  /// Adds a watchdog, an actor of that name: it attributes whatever does not go on. @pre no other
  void watch(watchdog_options options = {});

  /// Checks the graph, then starts every actor in order. An error names the actor and what it
  /// lacks; nothing runs then. Checked are names, handles of nobody, what constructors looked up
  /// before it was added (with the cycle, if it is one), and whatever an actor checks itself
  /// (`check_graph`).
  [[nodiscard]] result<void> start();
  /// Ends every actor, the last one first. An error names those that did not end within the limit.
  result<void> stop();

  /// Blocks until `finish` (or an actor's `finish_run`), the first failure, or the end of `limit`
  /// (errc::timed_out).
  [[nodiscard]] result<void>
  wait_blocking(std::optional<std::chrono::nanoseconds> limit = std::nullopt);
  /// Ends `wait_blocking` from any thread.
  void finish() { core_->finished(); }
  /// What `wait_blocking` would return at once; empty while the run goes on.
  [[nodiscard]] std::optional<result<void>> outcome() const { return core_->outcome(); }
  /// Ends every actor as a crash would: nothing runs any more, only destructors do, and the
  /// simulation forgets its timers and jobs. @pre simulated, and not called from a turn
  void kill();

  /// Asks from a thread that is no actor, and blocks for the answer.
  template <class Protocol, class Request>
    requires request_is_in_protocol<Protocol, Request> && needs_no_lease<Request>
  [[nodiscard]] auto ask_blocking(handle<Protocol> asked, message<Request> request,
                                  deadline_after limit) {
    return run_blocking(&ask_once<Protocol, Request>, std::move(asked), std::move(request), limit);
  }
  /// Runs `callable(arguments...)`, which returns a task, on an actor of the graph's own, and
  /// blocks for its value: `result<T>`, flat when the task gives a result.
  template <class Callable, class... Args>
  [[nodiscard]] auto run_blocking(Callable callable, Args... args) {
    using call = detail::blocking_call<Callable, Args...>;
    auto shared = std::make_shared<call>(*driver_scope_, std::move(callable), std::move(args)...);
    auto outcome = shared->outcome();
    post_call(driver_, std::move(shared));
    drive([&outcome] { return detail::is_ready(outcome); });
    using outcome_type = decltype(outcome.get());
    if (simulated() && !detail::is_ready(outcome)) return outcome_type(stuck());
    return outcome.get();
  }

  /// Makes an actor of this graph reachable for other processes of this machine, under a name, at a
  /// port of 127.0.0.1: a free one for 0, or one that this graph publishes at already. Gives the
  /// port. Errors: the name is taken there, or the port cannot be listened to; errc::unsupported in
  /// a simulation. Before or after `start`; a request is answered once the actor runs.
  template <class Protocol>
  [[nodiscard]] result<std::uint16_t> publish(const handle<Protocol>& shown,
                                              const std::string& name, std::uint16_t port = 0) {
    return publish_actor(shown.where(), name, port, detail::conversations_of(Protocol()));
  }
  /// A handle of an actor that another graph has published, with the type and the behaviour of a
  /// local one; its protocol may be narrower than the published one. Blocks until the peer has
  /// agreed to every conversation, for at most `limit`. Errors: nobody listens there, or not to the
  /// name (errc::not_found), or not in this protocol (errc::unsupported); errc::unsupported in a
  /// simulation. Before or after `start`; the handle works at once.
  ///
  /// When the peer is lost, all pending asks end at once with errc::unavailable, and so does every
  /// later one: the handle stays dead, connect again for another. Requests that name a stream are
  /// refused with errc::unsupported. The rest is as with a local actor.
  template <class Protocol>
  [[nodiscard]] result<handle<Protocol>> connect(const std::string& host, std::uint16_t port,
                                                 const std::string& name, deadline_after limit) {
    auto where = connect_actor(host, port, name, detail::conversations_of(Protocol()), limit);
    if (!where) return failure(std::move(where.error()));
    return handle<Protocol>(std::move(*where));
  }
  [[nodiscard]] border_counters border() const;

  template <class Protocol>
  [[nodiscard]] handle<Protocol> find(const std::string& name) const {
    return handle<Protocol>(core_->find(name));
  }
  /// Who takes part in a barrier, in the order of addition.
  [[nodiscard]] std::vector<std::string> origins() const;
  [[nodiscard]] std::vector<std::string> owners() const;
  [[nodiscard]] incarnation life() const noexcept { return core_->life(); }

  /// Graphviz: actors, their roles, who was given whose handle (solid), over whom a barrier goes
  /// (dashed), and who restarts whom (dotted).
  [[nodiscard]] std::string describe() const;
  /// The suspended coroutines of one actor, as a tree.
  [[nodiscard]] std::string dump_tasks(const std::string& name);
  /// Summed over all actors.
  [[nodiscard]] actor_counters counters();
  /// Shows every living actor to a test, each between two of its turns. @pre simulated, and not
  /// called from a turn
  void inspect(const std::function<void(actor& shown)>& look);

private:
  struct traits {
    bool is_origin = false;
    bool is_owner = false;
  };
  struct member {
    std::string name;
    traits kind;
    detail::address where;
    std::unique_ptr<actor> body; ///< Until it is started.
    detail::body_factory make;   ///< Until it is started; empty unless it is supervised.
    std::string supervisor;      ///< Empty for one that is not supervised.
    wiring given;
    bool running = false;
  };

  template <class T>
  static constexpr traits traits_of() {
    traits kind;
    if constexpr (requires { T::is_origin; }) kind.is_origin = T::is_origin;
    if constexpr (requires { T::is_owner; }) kind.is_owner = T::is_owner;
    return kind;
  }

  template <class T, class... Args>
  handle<typename T::protocol> add_as(std::string name, traits kind, origin_tag, Args&&... args) {
    kind.is_origin = true;
    return add_as<T>(std::move(name), kind, std::forward<Args>(args)...);
  }
  template <class T, class... Args>
  handle<typename T::protocol> add_as(std::string name, traits kind, owner_tag, Args&&... args) {
    kind.is_owner = true;
    return add_as<T>(std::move(name), kind, std::forward<Args>(args)...);
  }
  template <class T, class... Args>
  handle<typename T::protocol> add_as(std::string name, traits kind, Args&&... args) {
    member added = open(std::move(name), kind);
    (note_argument(added, args), ...);
    const context ctx = context_for(added);
    {
      const run_queue::turn turn(detail::queue_of(added.where));
      const auto make = [&] { added.body = std::make_unique<T>(ctx, std::forward<Args>(args)...); };
      construct(added, make);
    }
    handle<typename T::protocol> made(added.where);
    enter(std::move(added));
    return made;
  }

  template <class Argument>
  static void note_argument(member& added, const Argument& given) {
    added.given.next_argument();
    if constexpr (requires { given.wire(added.given); })
      given.wire(added.given);
    else if constexpr (requires { added.given.needs(given); })
      added.given.needs(given);
  }

  template <class Protocol, class Request>
  static auto ask_once(handle<Protocol> asked, message<Request> request, deadline_after limit)
      -> task<result<message<typename Protocol::template reply<Request>>>> {
    auto answer = co_await asked.ask(std::move(request), limit);
    co_return answer;
  }

  [[nodiscard]] result<std::uint16_t>
  publish_actor(const detail::address& shown, const std::string& name, std::uint16_t port,
                std::vector<detail::conversation> conversations);
  [[nodiscard]] result<detail::address>
  connect_actor(const std::string& host, std::uint16_t port, const std::string& name,
                std::vector<detail::conversation> conversations, deadline_after limit);
  [[nodiscard]] detail::open_border& open_border();
  /// A mailbox under this name, or this name with a number where it is taken.
  [[nodiscard]] member open_numbered(const std::string& name);
  void launch(member& opened);
  /// Tells an actor to end, and waits; `running` stays true when it does not within the limit.
  void end(member& running);
  [[nodiscard]] member open(std::string name, traits kind);
  /// An exception of a library ends up in `faults_`.
  void construct(const member& added, const std::function<void()>& make);
  [[nodiscard]] context context_for(const member& added) const;
  [[nodiscard]] context join(detail::group_members& group, member& added) const;
  supervised_group add_supervisor(std::string name, supervision_options how,
                                  detail::group_members* within);
  void make_first(member& added);
  void enter(member added);
  static void post_call(const detail::address& to, std::shared_ptr<detail::posted_call> call);
  [[nodiscard]] result<void> check_wiring() const;
  [[nodiscard]] result<void> check_lookups() const;
  [[nodiscard]] result<void> check_members() const;
  /// The names from one actor to another along the handles that they were given; empty: no way.
  [[nodiscard]] std::vector<std::string> path(const std::string& from, const std::string& to) const;
  [[nodiscard]] member* member_named(const std::string& name);
  /// Runs `question(actor)` on the actor's turn; empty when it does not answer in time.
  /// Steps the simulation, where there is one, until `done()` or until nothing is left to do; on
  /// threads, returns at once for the caller to wait.
  template <class Done>
  void drive(Done done) const {
    while (simulated() && !done() && step()) {
    }
  }
  [[nodiscard]] bool simulated() const noexcept { return core_->env().schedule() != nullptr; }
  bool step() const;
  [[nodiscard]] std::chrono::nanoseconds current_time() const;
  [[nodiscard]] result<void> wait_on_threads(std::optional<std::chrono::nanoseconds> limit);
  /// Where no actor gets a turn any more, the watchdog does not either: whoever waits for the run
  /// looks after it. The error of a stall that ends the run.
  [[nodiscard]] result<void> check_pulse() const;
  /// The error of a simulation in which nobody can go on: who waits for what.
  [[nodiscard]] tl::unexpected<error> stuck() const;
  [[nodiscard]] std::optional<std::string>
  ask_member(const member& asked, std::function<std::string(const actor&)> question) const;

  const graph_options options_;
  std::shared_ptr<detail::graph_core> core_;
  std::unique_ptr<detail::mailbox_system> mailboxes_;
  std::unique_ptr<detail::open_border> border_; ///< Null while nothing is remote.
  std::vector<member> members_;
  std::shared_ptr<detail::watched_actors> watched_; ///< Null without a watchdog.
  std::vector<error> faults_; ///< Of building; the first one is what `start` says.
  detail::address driver_;
  scope* driver_scope_ = nullptr;
  bool started_ = false;
};

} // namespace weir
