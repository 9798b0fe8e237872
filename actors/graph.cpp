#include "actors/graph.hpp"

#include "actors/runtime/detail/drawing.hpp"
#include "actors/runtime/detail/simulated_scheduler.hpp"

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
  posted_question(std::string name, const actor& asked,
                  std::function<std::string(const actor&)> question)
      : name_(std::move(name)), asked_(asked), question_(std::move(question)) {}
  posted_question(const posted_question&) = delete;
  posted_question& operator=(const posted_question&) = delete;
  ~posted_question() override {
    if (!answered_) answer_.set_value("  " + name_ + " has ended\n");
  }
  [[nodiscard]] std::future<std::string> answer() { return answer_.get_future(); }
  void run() noexcept override {
    answered_ = true;
    answer_.set_value(question_(asked_));
  }

private:
  std::string name_;
  const actor& asked_;
  std::function<std::string(const actor&)> question_;
  std::promise<std::string> answer_;
  bool answered_ = false;
};

constexpr std::chrono::seconds question_limit(1);

} // namespace

graph::graph(world& env, graph_options options)
    : options_(options), core_(std::make_shared<detail::graph_core>(env, options.life)),
      mailboxes_(std::make_unique<detail::mailbox_system>(
          detail::scheduler_options{.workers = options.workers}, env.schedule())) {
  member added = open("driver", {});
  {
    const run_queue::turn turn(detail::queue_of(added.where));
    added.body = std::make_unique<driver>(context_for(added));
  }
  driver_ = added.where;
  driver_scope_ = &detail::actor_access::root(*added.body);
  added.running = true;
  core_->started(added.name);
  mailboxes_->launch(added.where, std::move(added.body));
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
  const auto fault = [&](std::string thrown) {
    faults_.push_back(
        {errc::internal, "actor " + added.name + ": its constructor threw: " + std::move(thrown)});
  };
  try {
    make();
  } catch (const std::exception& thrown) {
    fault(thrown.what());
  } catch (...) {
    fault("an exception that is not derived from std::exception");
  }
}

void graph::enter(member added) {
  if (!core_->find(added.name)) core_->enter(added.name, added.where);
  added.asked = added.body.get();
  members_.push_back(std::move(added));
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
  for (member& each : members_) {
    if (each.running) continue;
    each.running = true;
    core_->started(each.name);
    mailboxes_->launch(each.where, std::move(each.body));
  }
  return {};
}

result<void> graph::stop() {
  std::string late;
  for (auto each = members_.rbegin(); each != members_.rend(); ++each) {
    if (!each->running) {
      mailboxes_->discard(each->where, std::move(each->body));
      continue;
    }
    detail::parcel stop;
    stop.kind = detail::parcel_kind::stop;
    detail::post(each->where, detail::address(), std::move(stop));
    const std::int64_t latest = core_->env().clock().now() + options_.stop_limit.count();
    drive([&] { return !core_->running(each->name) || core_->env().clock().now() > latest; });
    if (core_->wait_ended(each->name, options_.stop_limit))
      each->running = false;
    else
      late += (late.empty() ? "" : ", ") + each->name;
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

bool graph::step() const {
  return core_->env().schedule()->step();
}

tl::unexpected<error> graph::stuck() const {
  std::string text = "nobody can go on, for ever:\n";
  for (const member& each : members_) {
    if (each.running && each.asked != nullptr)
      text += ask_member(each, &detail::actor_access::describe_tasks).value_or("");
  }
  return failure(errc::timed_out, std::move(text));
}

result<void> graph::wait_blocking(std::optional<std::chrono::nanoseconds> limit) {
  if (!simulated()) return core_->wait_finished(limit);
  const clock& time = core_->env().clock();
  const std::int64_t begun = time.now();
  const auto over = [&] { return limit && time.now() - begun > limit->count(); };
  drive([&] { return core_->outcome().has_value() || over(); });
  if (auto ended = core_->outcome()) return std::move(*ended);
  if (!over()) return stuck();
  return core_->wait_finished(std::chrono::nanoseconds(0));
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
    detail::drawn_actor one{each.name, each.kind.is_origin, each.kind.is_owner, {}, {}};
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
    return question(*asked.asked);
  }
  auto posted = std::make_shared<posted_question>(asked.name, *asked.asked, std::move(question));
  auto answer = posted->answer();
  post_call(asked.where, std::move(posted));
  if (answer.wait_for(question_limit) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

std::string graph::stalled(std::chrono::nanoseconds age) {
  std::string text;
  for (const member& each : members_) {
    if (!each.running || each.asked == nullptr) continue;
    const auto waits = ask_member(each, [age](const actor& asked) {
      return detail::actor_access::describe_asks(asked, age);
    });
    text += waits ? *waits : "  " + each.name + " takes no messages\n";
  }
  return text;
}

std::string graph::describe_tasks(const std::string& name) {
  const member* asked = member_named(name);
  if (asked == nullptr || asked->asked == nullptr || !asked->running)
    return name + " does not run\n";
  return ask_member(*asked, &detail::actor_access::describe_tasks)
      .value_or(name + " takes no messages\n");
}

actor_counters graph::counters() {
  actor_counters sum;
  for (const member& each : members_) {
    if (!each.running || each.asked == nullptr) continue;
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
