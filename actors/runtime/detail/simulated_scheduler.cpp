#include "actors/runtime/detail/simulated_scheduler.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace weir::detail {

class simulated_scheduler::pool_job final : public runnable {
public:
  pool_job(simulated_scheduler& schedule, std::function<void()> work)
      : schedule_(schedule), work_(std::move(work)) {}
  pool_job(const pool_job&) = delete;
  pool_job& operator=(const pool_job&) = delete;

  [[nodiscard]] bool take_turn() override {
    work_();
    work_ = nullptr;
    schedule_.job_ended();
    return false;
  }
  void dismissed() noexcept override { delete this; }

private:
  ~pool_job() = default;

  simulated_scheduler& schedule_;
  std::function<void()> work_;
};

simulated_scheduler::simulated_scheduler(schedule_options options)
    : options_(options), random_(options.seed), hash_(options.seed) {
  ensure(options.pool_threads > 0, "a pool has a thread");
  newest_.reserve(options.trace_depth);
}

std::uint32_t simulated_scheduler::enter(const std::string& name) {
  names_.push_back(name);
  return static_cast<std::uint32_t>(names_.size());
}

bool simulated_scheduler::later(const timer& a, const timer& b) noexcept {
  return a.due != b.due ? a.due > b.due : a.order > b.order;
}

void simulated_scheduler::arm(timer added) {
  timers_.push_back(std::move(added));
  std::ranges::push_heap(timers_, &simulated_scheduler::later);
}

void simulated_scheduler::wake_at(std::chrono::nanoseconds due, address where) {
  const std::uint64_t order = timers_ever_++;
  arm({due, order, std::move(where), nullptr});
}

void simulated_scheduler::expire() {
  while (!timers_.empty() && timers_.front().due <= now_) {
    std::ranges::pop_heap(timers_, &simulated_scheduler::later);
    const timer due = std::move(timers_.back());
    timers_.pop_back();
    if (due.job != nullptr) {
      ready(*due.job);
      continue;
    }
    parcel wake;
    wake.kind = parcel_kind::wake;
    post(due.where, address(), std::move(wake));
  }
}

bool simulated_scheduler::submit(std::function<void()> job) {
  if (jobs_running_ < options_.pool_threads) {
    begin_job(std::move(job));
    return true;
  }
  if (jobs_.size() >= options_.pool_queue_limit) return false;
  jobs_.push_back(std::move(job));
  return true;
}

void simulated_scheduler::begin_job(std::function<void()> job) {
  ++jobs_running_;
  auto* begun = new pool_job(*this, std::move(job));
  if (options_.job_delay_max.count() == 0) {
    ready(*begun);
    return;
  }
  const auto range = static_cast<std::uint64_t>(options_.job_delay_max.count());
  const std::chrono::nanoseconds delay(random_.below(range));
  const std::uint64_t order = timers_ever_++;
  arm({now_ + delay, order, address(), begun});
}

void simulated_scheduler::job_ended() {
  --jobs_running_;
  if (jobs_.empty()) return;
  auto next = std::move(jobs_.front());
  jobs_.pop_front();
  begin_job(std::move(next));
}

bool simulated_scheduler::step() {
  if (ready_.empty()) {
    if (timers_.empty()) return false;
    now_ = std::max(now_, timers_.front().due);
  }
  expire();
  if (ready_.empty()) return true; // a timer of a mailbox that has ended
  ++steps_;
  now_ += options_.step_cost;
  std::swap(ready_[draw(ready_.size())], ready_.back());
  runnable& chosen = *ready_.back();
  ready_.pop_back();
  if (chosen.take_turn())
    ready(chosen);
  else
    chosen.dismissed();
  return true;
}

void simulated_scheduler::drop_everything() noexcept {
  for (runnable* each : std::exchange(ready_, {}))
    each->dismissed();
  for (const timer& each : std::exchange(timers_, {})) {
    if (each.job != nullptr) each.job->dismissed();
  }
  jobs_.clear();
  jobs_running_ = 0;
}

std::size_t simulated_scheduler::draw(std::size_t bound) noexcept {
  // Without a division; the bias is below bound / 2^32, and the same everywhere.
  return static_cast<std::size_t>(((random_.next() >> 32U) * bound) >> 32U);
}

void simulated_scheduler::remember(const traced& line) {
  if (newest_.size() < options_.trace_depth) {
    newest_.push_back(line);
    return;
  }
  newest_[oldest_] = line;
  if (++oldest_ == newest_.size()) oldest_ = 0;
}

void simulated_scheduler::trace(std::uint32_t from, std::uint32_t to, const parcel& read) {
  ++messages_;
  const payload_ptr& content = read.items.empty() ? read.value.content : read.items.front();
  const message_type type = content ? content->type() : message_type();
  const envelope& header = read.value.header;
  const std::uint64_t content_of = std::uint64_t(read.items.size()) << 40U |
                                   std::uint64_t(type.value) << 8U |
                                   static_cast<std::uint64_t>(read.kind);
  hash_ ^= (std::uint64_t(from) << 32U | to) * 0x9e3779b97f4a7c15ULL;
  hash_ += content_of * 0xbf58476d1ce4e5b9ULL;
  hash_ ^= header.request_id * 0x94d049bb133111ebULL;
  hash_ += (header.lease.transaction << 32U | header.lease.step) * 0xd6e8feb86659fd93ULL;
  hash_ ^= static_cast<std::uint64_t>(now_.count()) * 0xa0761d6478bd642fULL;
  hash_ *= 0x9e3779b97f4a7c15ULL;
  hash_ ^= hash_ >> 32U;
  if (options_.trace_depth != 0) remember({now_, from, to, read.kind, type, header.is_reply});
}

namespace {

std::string_view name_of_kind(parcel_kind kind) {
  switch (kind) {
  case parcel_kind::frame:
    return "frame";
  case parcel_kind::refusal:
    return "refusal";
  case parcel_kind::call:
    return "completion";
  case parcel_kind::wake:
    return "time";
  case parcel_kind::stop:
    return "stop";
  case parcel_kind::leave:
    return "leave";
  case parcel_kind::begin:
    return "begin";
  case parcel_kind::stream_open:
    return "stream opened";
  case parcel_kind::stream_credit:
    return "credit";
  case parcel_kind::stream_items:
    return "items";
  case parcel_kind::stream_end:
    return "end of stream";
  case parcel_kind::stream_cancel:
    return "stream cancelled";
  }
  return "unknown";
}

} // namespace

std::string simulated_scheduler::describe() const {
  std::vector<traced> lines = newest_;
  std::ranges::rotate(lines, lines.begin() + static_cast<std::ptrdiff_t>(oldest_));
  const auto name = [this](std::uint32_t number) {
    return number == 0 ? std::string("-") : names_[number - 1];
  };
  std::string text;
  for (const traced& line : lines) {
    text += "  " + std::to_string(line.at.count() / 1000) + " us  " + name(line.from) + " -> " +
            name(line.to) + "  " + std::string(name_of_kind(line.kind));
    if (line.type != message_type()) text += " " + std::string(message_name(line.type));
    text += line.is_reply ? " (reply)\n" : "\n";
  }
  return text;
}

} // namespace weir::detail
