#include "actors/graph.hpp"

#include "actors/runtime/detail/border.hpp"
#include "actors/runtime/detail/drawing.hpp"
#include "actors/runtime/detail/simulated_scheduler.hpp"
#include "actors/runtime/detail/task_dump.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <future>
#include <map>

namespace weir {

namespace {

/// Asks on behalf of threads that are no actor.
class driver final : public actor {
public:
  using protocol = weir::protocol<>;
  explicit driver(context ctx) : actor(std::move(ctx)) {}
};

/// A question to an actor, answered on its turn.
class posted_question final : public detail::posted_call {
public:
  posted_question(std::string name, std::function<std::string(const actor&)> question)
      : name_(std::move(name)), question_(std::move(question)) {}
  posted_question(const posted_question&) = delete;
  posted_question& operator=(const posted_question&) = delete;
  ~posted_question() override {
    if (!answered_) answer_.set_value("  " + name_ + " has ended\n");
  }
  [[nodiscard]] std::future<std::string> answer() { return answer_.get_future(); }
  void run(actor* body) noexcept override {
    answered_ = true;
    answer_.set_value(body != nullptr ? question_(*body) : "  " + name_ + " is being restarted\n");
  }

private:
  std::string name_;
  std::function<std::string(const actor&)> question_;
  std::promise<std::string> answer_;
  bool answered_ = false;
};

constexpr std::chrono::seconds question_limit(1);

tl::unexpected<error> not_ended(std::chrono::nanoseconds limit) {
  return failure(errc::timed_out, "the run did not end within " + to_string(deadline_after{limit}));
}

} // namespace

graph::graph(world& env, graph_options options)
    : options_(options), core_(std::make_shared<detail::graph_core>(env, options.life)),
      mailboxes_(std::make_unique<detail::mailbox_system>(
          detail::scheduler_options{.workers = options.workers}, env.schedule())) {
  detail::print_tasks_on_ensure();
  member added = open("driver", {});
  {
    const run_queue::turn turn(detail::queue_of(added.where));
    added.body = std::make_unique<driver>(context_for(added));
  }
  driver_ = added.where;
  driver_scope_ = &detail::actor_access::root(*added.body);
  launch(added);
  members_.push_back(std::move(added));
}

graph::~graph() {
  const auto stopped = stop();
  if (!stopped) {
    core_->env().log(log_level::error, "graph", to_string(stopped.error()));
    ensure(false, "every actor of a graph ends before the graph");
  }
}

graph::member graph::open(std::string name, traits kind) {
  ensure(!started_, "actors are added before the graph starts");
  if (core_->find(name))
    faults_.push_back({errc::already_exists,
                       "two actors are called " + name + ": handles and logs tell actors by name"});
  member added;
  added.name = std::move(name);
  added.kind = kind;
  added.where = mailboxes_->open_mailbox(std::make_shared<const std::string>(added.name));
  return added;
}

context graph::context_for(const member& added) const {
  context ctx(std::make_shared<const std::string>(added.name), added.where, core_);
  ctx.set_origin(added.kind.is_origin);
  return ctx;
}

void graph::construct(const member& added, const std::function<void()>& make) {
  try {
    make();
  } catch (...) {
    faults_.push_back({errc::internal, "actor " + added.name + ": its constructor threw: " +
                                           detail::exception_text(std::current_exception())});
  }
}

void graph::enter(member added) {
  if (!core_->find(added.name)) core_->enter(added.name, added.where);
  members_.push_back(std::move(added));
}

supervised_group graph::supervise(std::string name, supervision_options how) {
  return add_supervisor(std::move(name), how, nullptr);
}

supervised_group graph::supervise(const supervised_group& within, std::string name,
                                  supervision_options how) {
  return add_supervisor(std::move(name), how, within.members_.get());
}

supervised_group graph::add_supervisor(std::string name, supervision_options how,
                                       detail::group_members* within) {
  member added = open(std::move(name), {});
  const context ctx = within != nullptr ? join(*within, added) : context_for(added);
  const auto members = std::make_shared<detail::group_members>();
  members->name = added.name;
  members->options = how;
  members->supervisor = added.where;
  added.make = [ctx, members] { return std::make_unique<supervisor>(ctx, members); };
  // Its first body is made by `start`, when all its members are known.
  enter(std::move(added));
  return supervised_group(members);
}

void graph::watch(watchdog_options options) {
  ensure(watched_ == nullptr, "a graph has one watchdog");
  watched_ = std::make_shared<detail::watched_actors>();
  watched_->options = options;
  member added = open("watchdog", {});
  const context ctx = context_for(added);
  added.make = [ctx, watched = watched_] { return std::make_unique<watchdog>(ctx, watched); };
  enter(std::move(added));
}

context graph::join(detail::group_members& group, member& added) const {
  context ctx = context_for(added);
  ctx.set_supervision({group.supervisor, group.names.size()});
  added.supervisor = group.name;
  group.names.push_back(added.name);
  group.where.push_back(added.where);
  return ctx;
}

void graph::make_first(member& added) {
  const run_queue::turn turn(detail::queue_of(added.where));
  construct(added, [&added] { added.body = added.make(); });
}

void graph::post_call(const detail::address& to, std::shared_ptr<detail::posted_call> call) {
  detail::parcel sent;
  sent.kind = detail::parcel_kind::call;
  sent.posted = std::move(call);
  detail::post(to, detail::address(), std::move(sent));
}

result<void> graph::check_wiring() const {
  for (const member& each : members_) {
    if (each.given.unset_)
      return failure(errc::invalid_argument,
                     "actor " + each.name + ": argument " + std::to_string(*each.given.unset_) +
                         " after the context holds a handle of nobody; add the actor that it names "
                         "first and pass its handle");
  }
  return {};
}

std::vector<std::string> graph::path(const std::string& from, const std::string& to) const {
  std::map<std::string, std::string> reached{{from, ""}}; // and from where
  std::deque<std::string> pending{from};
  while (!pending.empty() && !reached.contains(to)) {
    const auto at = std::ranges::find(members_, pending.front(), &member::name);
    pending.pop_front();
    for (const auto& given : at->given.handles_) {
      std::string next = detail::name_of(given);
      if (reached.try_emplace(next, at->name).second) pending.push_back(std::move(next));
    }
  }
  std::vector<std::string> names;
  if (!reached.contains(to)) return names;
  for (std::string at = to; !at.empty(); at = reached.at(at))
    names.insert(names.begin(), at);
  return names;
}

/// Handles come from `add`, so that only what is looked up by name can be there too late.
result<void> graph::check_lookups() const {
  const auto missed = core_->seal_directory();
  if (missed.empty()) return {};
  const auto& [asking, wanted] = missed.front();
  const std::string looks = "actor " + asking + " looks up " + wanted + " in its constructor, ";
  if (!core_->find(wanted))
    return failure(errc::not_found, looks + "and no actor of the graph is called so");
  const auto back = path(wanted, asking);
  if (back.empty())
    return failure(errc::invalid_argument,
                   looks + "where it is not added yet; add " + wanted + " before " + asking);
  std::string cycle = asking;
  for (const std::string& name : back)
    cycle += " -> " + name;
  return failure(errc::invalid_argument, looks + "but is needed by it: " + cycle +
                                             "; one of them looks the other up in run()");
}

result<void> graph::check_members() const {
  graph_roster all{.origins = origins(), .owners = owners()};
  for (const member& each : members_) {
    if (each.body == nullptr) continue;
    if (auto fine = detail::actor_access::check_graph(*each.body, all); !fine) {
      error reason = std::move(fine.error());
      reason.text = "actor " + each.name + ": " + reason.text;
      return failure(std::move(reason));
    }
  }
  return {};
}

result<void> graph::start() {
  ensure(!started_, "a graph starts once");
  if (!faults_.empty()) return failure(faults_.front());
  if (auto wired = check_wiring(); !wired) return wired;
  if (auto found = check_lookups(); !found) return found;
  if (auto fine = check_members(); !fine) return fine;
  started_ = true;
  if (watched_ != nullptr) {
    watched_->pulse_ns = core_->env().clock().now();
    for (const member& each : members_) {
      if (each.name == "watchdog") continue;
      watched_->names.push_back(each.name);
      watched_->where.push_back(each.where);
    }
  }
  for (member& each : members_) {
    if (each.running) continue;
    if (each.body == nullptr) make_first(each);
    launch(each);
  }
  return {};
}

void graph::launch(member& opened) {
  opened.running = true;
  core_->started(opened.name);
  mailboxes_->launch(opened.where, std::move(opened.body), std::move(opened.make));
}

void graph::end(member& running) {
  detail::parcel stop;
  stop.kind = detail::parcel_kind::stop;
  detail::post(running.where, detail::address(), std::move(stop));
  const std::int64_t latest = core_->env().clock().now() + options_.stop_limit.count();
  drive([&] { return !core_->running(running.name) || core_->env().clock().now() > latest; });
  running.running = !core_->wait_ended(running.name, options_.stop_limit);
}

result<void> graph::stop() {
  std::string late;
  for (auto each = members_.rbegin(); each != members_.rend(); ++each) {
    if (!each->running) {
      mailboxes_->discard(each->where, std::move(each->body));
      continue;
    }
    end(*each);
    if (each->running) late += (late.empty() ? "" : ", ") + each->name;
  }
  if (late.empty()) return {};
  return failure(errc::timed_out, "did not end within " +
                                      to_string(deadline_after{options_.stop_limit}) + ": " + late);
}

void graph::kill() {
  ensure(simulated(), "only a simulated graph is killed without its process");
  for (auto each = members_.rbegin(); each != members_.rend(); ++each) {
    if (std::exchange(each->running, false)) mailboxes_->kill(each->where);
  }
  core_->env().schedule()->drop_everything();
}

std::chrono::nanoseconds graph::current_time() const {
  return std::chrono::nanoseconds(core_->env().clock().now());
}

bool graph::step() const {
  return core_->env().schedule()->step();
}

tl::unexpected<error> graph::stuck() const {
  std::string text = "nobody can go on, for ever:\n";
  for (const member& each : members_) {
    if (each.running && each.where != driver_)
      text += ask_member(each, &weir::dump_tasks).value_or("");
  }
  return failure(errc::timed_out, std::move(text));
}

result<void> graph::wait_on_threads(std::optional<std::chrono::nanoseconds> limit) {
  if (watched_ == nullptr) return core_->wait_finished(limit);
  const auto begun = current_time();
  while (true) {
    auto slice = watched_->options.interval;
    if (limit) slice = std::min(slice, begun + *limit - current_time());
    std::ignore = core_->wait_finished(slice);
    if (auto ended = core_->outcome()) return std::move(*ended);
    if (auto turning = check_pulse(); !turning) return turning;
    if (limit && current_time() - begun >= *limit) return not_ended(*limit);
  }
}

result<void> graph::check_pulse() const {
  const watchdog_options& options = watched_->options;
  const auto silent = current_time() - std::chrono::nanoseconds(watched_->pulse_ns);
  if (silent < options.stall_timeout + 2 * options.interval) return {};
  std::string text = "no actor gets a turn, and every thread of the scheduler is held, for " +
                     detail::age_text(silent);
  for (std::size_t i = 0; i < watched_->names.size(); ++i)
    text += "\n  " + watched_->names[i] + " is " + detail::whereabouts(watched_->where[i]);
  if (options.action == stall_action::abort)
    return failure(error{errc::timed_out, std::move(text), "watchdog"});
  core_->env().log(log_level::warning, "watchdog", text);
  return {};
}

result<void> graph::wait_blocking(std::optional<std::chrono::nanoseconds> limit) {
  if (!simulated()) return wait_on_threads(limit);
  const auto begun = current_time();
  const auto over = [&] { return limit && current_time() - begun > *limit; };
  drive([&] { return core_->over() || over(); });
  if (auto ended = core_->outcome()) return std::move(*ended);
  if (!over()) return stuck();
  return not_ended(*limit);
}

std::vector<std::string> graph::origins() const {
  std::vector<std::string> names;
  for (const member& each : members_) {
    if (each.kind.is_origin) names.push_back(each.name);
  }
  return names;
}

std::vector<std::string> graph::owners() const {
  std::vector<std::string> names;
  for (const member& each : members_) {
    if (each.kind.is_owner) names.push_back(each.name);
  }
  return names;
}

std::string graph::describe() const {
  std::vector<detail::drawn_actor> drawn;
  for (const member& each : members_) {
    if (each.where == driver_) continue;
    detail::drawn_actor one{each.name, each.kind.is_origin, each.kind.is_owner, {}, {}, {}};
    one.supervisor = each.supervisor;
    for (const detail::address& asked : each.given.handles_)
      one.asks.push_back(detail::name_of(asked));
    if (each.given.barrier_) {
      one.barrier = each.given.barrier_->origins;
      const auto& owners = each.given.barrier_->owners;
      one.barrier.insert(one.barrier.end(), owners.begin(), owners.end());
    }
    drawn.push_back(std::move(one));
  }
  return detail::to_dot(std::move(drawn));
}

graph::member* graph::member_named(const std::string& name) {
  const auto place = std::ranges::find(members_, name, &member::name);
  return place != members_.end() ? &*place : nullptr;
}

std::optional<std::string>
graph::ask_member(const member& asked, std::function<std::string(const actor&)> question) const {
  if (simulated()) {
    // Looks at the actor without a step: the schedule stays what it was.
    if (!core_->running(asked.name)) return "  " + asked.name + " has ended\n";
    const run_queue::turn turn(detail::queue_of(asked.where));
    const actor* body = detail::body_of(asked.where);
    return body != nullptr ? question(*body) : "  " + asked.name + " is being restarted\n";
  }
  auto posted = std::make_shared<posted_question>(asked.name, std::move(question));
  auto answer = posted->answer();
  post_call(asked.where, std::move(posted));
  if (answer.wait_for(question_limit) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

std::string graph::dump_tasks(const std::string& name) {
  const member* asked = member_named(name);
  if (asked == nullptr || !asked->running) return name + " does not run\n";
  return ask_member(*asked, &weir::dump_tasks).value_or(name + " takes no messages\n");
}

void graph::inspect(const std::function<void(actor& shown)>& look) {
  ensure(simulated(), "actors are inspected in a simulation, where nothing runs meanwhile");
  for (const member& each : members_) {
    if (!each.running || each.where == driver_ || !core_->running(each.name)) continue;
    const run_queue::turn turn(detail::queue_of(each.where));
    if (actor* const body = detail::body_of(each.where)) look(*body);
  }
}

actor_counters graph::counters() {
  actor_counters sum;
  for (const member& each : members_) {
    if (!each.running || each.where == driver_) continue;
    const auto add = [&sum](const actor& asked) {
      const actor_counters of = detail::actor_access::counters(asked);
      sum.live_coroutines += of.live_coroutines;
      sum.pending_asks += of.pending_asks;
      sum.unsettled_leases += of.unsettled_leases;
      sum.open_streams += of.open_streams;
      sum.late_answers += of.late_answers;
      return std::string();
    };
    ensure(ask_member(each, add).has_value(), "an actor that is counted takes messages");
  }
  return sum;
}

} // namespace weir
