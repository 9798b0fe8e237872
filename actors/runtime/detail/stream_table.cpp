#include "actors/runtime/detail/stream_table.hpp"

#include "actors/runtime/detail/task_dump.hpp"
#include "actors/runtime/watchdog_state.hpp"

#include <algorithm>
#include <span>

namespace weir::detail {

namespace {
/// Another core wrote what the next reads will look at: a payload, and its bytes behind it.
void fetch_ahead(std::span<const payload_ptr> coming) noexcept {
  constexpr std::size_t payloads_ahead = 4;
  constexpr std::size_t line_bytes = 64;
  if (coming.size() <= payloads_ahead) return;
  const auto* const at = reinterpret_cast<const std::byte*>(coming[payloads_ahead].get());
  for (std::size_t line = 0; line < 3; ++line)
    __builtin_prefetch(at + line * line_bytes);
}
} // namespace

stream_table::~stream_table() {
  ensure(inboxes_.empty() && sources_.empty(), "no stream outlives its actor");
}

void stream_table::receive(const address& from, parcel& came) {
  const bool for_source =
      came.kind == parcel_kind::stream_credit || came.kind == parcel_kind::stream_cancel;
  if (for_source) {
    if (const auto place = sources_.find(came.source); place != sources_.end())
      place->second->receive(came);
    return;
  }
  if (const auto place = inboxes_.find(came.stream); place != inboxes_.end()) {
    place->second->receive(from, came);
    return;
  }
  if (came.kind == parcel_kind::stream_end) return;
  parcel gone;
  gone.kind = parcel_kind::stream_cancel;
  gone.source = came.source;
  post(from, self_, std::move(gone));
}

// The consumer's end.

stream_inbox::stream_inbox(stream_table& table, std::uint64_t credit)
    : table_(table), id_(table.queue_.next_number()), credit_(credit) {
  ensure(credit > 0, "a stream has credit for at least one item");
  table_.inboxes_.emplace(id_, this);
}

stream_inbox::~stream_inbox() {
  table_.inboxes_.erase(id_);
  if (!producer_ || ended_) return;
  parcel gone;
  gone.kind = parcel_kind::stream_cancel;
  gone.source = source_;
  post(producer_, table_.self(), std::move(gone));
}

std::string stream_inbox::actor_name() const {
  return name_of(table_.self());
}

void stream_inbox::refuse(const address& second, std::uint64_t source) {
  parcel taken;
  taken.kind = parcel_kind::stream_cancel;
  taken.source = source;
  post(second, table_.self(), std::move(taken));
}

void stream_inbox::give_credit(std::uint64_t items) {
  parcel more;
  more.kind = parcel_kind::stream_credit;
  more.source = source_;
  more.credit = items;
  post(producer_, table_.self(), std::move(more));
}

void stream_inbox::receive(const address& from, parcel& came) {
  const bool known = producer_ && from == producer_ && came.source == source_;
  if (came.kind == parcel_kind::stream_open) {
    if (known) return;
    if (producer_) return refuse(from, came.source);
    producer_ = from;
    source_ = came.source;
    give_credit(credit_);
    return;
  }
  if (ended_ || !known) return;
  if (came.kind == parcel_kind::stream_items) {
    batches_.push_back(std::move(came.items));
  } else if (came.kind == parcel_kind::stream_end) {
    ended_ = true;
    reason_ = std::move(came.reason);
  }
  if (waiter_ != nullptr && ready()) waiter_->ready();
}

payload_ptr stream_inbox::take() {
  if (batches_.empty()) return {};
  std::vector<payload_ptr>& batch = batches_.front();
  fetch_ahead(std::span(batch).subspan(next_));
  payload_ptr item = std::move(batch[next_]);
  if (++next_ == batch.size()) {
    batches_.pop_front();
    next_ = 0;
  }
  // Half of the credit at a time: a message for two items at least, and never an idle producer.
  if (++taken_ * 2 >= credit_ && !ended_) give_credit(std::exchange(taken_, 0));
  return item;
}

std::string stream_inbox::producer_name() const {
  return producer_ ? name_of(producer_) : std::string("a producer to come");
}

std::string item_waiter::describe_wait(std::chrono::nanoseconds now) const {
  return "the next item of a stream from " + inbox_.producer_name() + ", " +
         age_text(now - since()) + " so far";
}

void item_waiter::begin(promise_base& reader, std::source_location where) {
  ensure(inbox_.waiter_ == nullptr, "one coroutine reads a stream");
  reader.waiting("the next item of a stream", where, this);
  reader_ = &reader;
  inbox_.waiter_ = this;
  reader.queue().timers().arm(*this, reader.queue().now() + limit_.duration);
}

void item_waiter::ready() noexcept {
  inbox_.waiter_ = nullptr;
  disarm();
  reader_->queue().wake(*reader_);
}

void item_waiter::expired() noexcept {
  late_ = true;
  ready();
}

result<void> item_waiter::ended() const {
  if (!inbox_.ended_)
    return failure(errc::timed_out, "no item of the stream from " + inbox_.producer_name() +
                                        " within " + to_string(limit_));
  if (inbox_.reason_ != nullptr) return failure(*inbox_.reason_);
  return {};
}

std::optional<std::chrono::nanoseconds> stream_inbox::read_since() const noexcept {
  if (waiter_ == nullptr) return std::nullopt;
  return waiter_->since();
}

void stream_table::add_waits(std::chrono::nanoseconds age, std::vector<long_wait>& waits) const {
  const std::chrono::nanoseconds now = queue_.now();
  for (const auto& [id, inbox] : inboxes_) {
    const auto since = inbox->read_since();
    if (!since || now - *since < age) continue;
    const std::string of = inbox->producer_name();
    waits.push_back({of, "waits for " + of + " to send the next item of a stream", now - *since});
  }
}

// The producer's end.

void credit_awaiter::refuse() {
  if (to_ == nullptr)
    refused_ = error{errc::unavailable, "the stream has no producer end: it was moved or ended"};
  else
    refused_ = to_->unread();
}

std::string credit_awaiter::describe_wait(std::chrono::nanoseconds) const {
  return "credit of a stream to " + name_of(to_->consumer_);
}

void credit_awaiter::wait(promise_base& writer, std::source_location where) noexcept {
  suspend(writer, "credit of a stream", where, this);
  to_->writers_.push_back(*this);
}

stream_source::stream_source(stream_table& table, address consumer, std::uint64_t stream)
    : table_(table), consumer_(std::move(consumer)), stream_(stream),
      id_(table.queue_.next_number()) {
  table_.sources_.emplace(id_, this);
  if (consumer_)
    post(consumer_, table_.self(), addressed(parcel_kind::stream_open));
  else
    cancelled_ = true;
}

stream_source::~stream_source() {
  if (!ended_)
    end(std::make_shared<const error>(
        error{errc::cancelled, "the producer was cancelled", name_of(table_.self())}));
  while (auto* writer = writers_.pop_front()) {
    writer->refused_ = error{errc::cancelled, "the stream was ended while an item waited"};
    writer->wake();
  }
  table_.sources_.erase(id_);
}

parcel stream_source::addressed(parcel_kind kind) const {
  parcel sent;
  sent.kind = kind;
  sent.stream = stream_;
  sent.source = id_;
  return sent;
}

/// Why nothing goes in any more.
error stream_source::unread() const {
  if (!consumer_) return error{errc::unavailable, "no actor of this graph reads the stream"};
  std::string consumer = name_of(consumer_);
  std::string text = consumer + " does not read the stream any more, or never read this one";
  return error{errc::unavailable, std::move(text), std::move(consumer)};
}

result<void> stream_source::try_push(payload_ptr& item) {
  result<void> accepted;
  switch (offer(item)) {
  case push_outcome::accepted:
    break;
  case push_outcome::without_credit:
    return failure(errc::exhausted, "the stream has no credit: its consumer is behind");
  case push_outcome::without_consumer:
    return failure(unread());
  }
  return accepted;
}

void stream_source::begin_batch() {
  // The next batch is taken to be as long as the last one.
  batch_.reserve(last_batch_);
  queue_of(table_.self()).send_later(*this);
}

void stream_source::depart() noexcept {
  link<departure_tag>::unlink();
  if (batch_.empty()) return;
  last_batch_ = batch_.size();
  parcel sent = addressed(parcel_kind::stream_items);
  sent.items = std::exchange(batch_, {});
  if (!cancelled_) post(consumer_, table_.self(), std::move(sent));
}

void stream_source::end(std::shared_ptr<const error> reason) {
  if (ended_) return;
  ended_ = true;
  depart();
  if (cancelled_) return;
  parcel sent = addressed(parcel_kind::stream_end);
  sent.reason = std::move(reason);
  post(consumer_, table_.self(), std::move(sent));
}

void stream_source::admit_writers() {
  while (auto* writer = writers_.front()) {
    const push_outcome outcome = offer(writer->item_);
    if (outcome == push_outcome::without_credit) return;
    if (outcome == push_outcome::without_consumer) writer->refuse();
    writer->wake();
  }
}

void stream_source::receive(parcel& came) {
  if (came.kind == parcel_kind::stream_cancel)
    cancelled_ = true;
  else
    credit_ += came.credit;
  admit_writers();
}

} // namespace weir::detail
