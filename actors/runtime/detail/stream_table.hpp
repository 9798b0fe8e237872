/// The two ends of credit-based streams, without the type of the items.
///
/// A consumer gives credit for a number of items; a producer sends no more than it has credit for,
/// so that what is under way is bounded by the consumer. Both ends are found by number: an end that
/// is gone is answered with a cancel, an item for it is dropped.
///
/// A message costs ten times what an item does, so items travel in batches and credit comes back
/// by halves. A batch is what one turn of the producer pushes, up to `batch_items_max`: it departs
/// when the producer has nothing more to do, or sends anything else. A producer that waits between
/// two items sends each by itself, at once; one that is ahead of its consumer sends many together.
#pragma once

#include "actors/runtime/deadline.hpp"
#include "actors/runtime/detail/address.hpp"

#include <deque>
#include <optional>
#include <unordered_map>

namespace weir {
struct long_wait;
} // namespace weir

namespace weir::detail {

class stream_table;
class stream_inbox;
class stream_source;

class item_waiter : private timer_node, private described_wait {
public:
  item_waiter(stream_inbox& inbox, deadline_after limit) noexcept : inbox_(inbox), limit_(limit) {}
  item_waiter(const item_waiter&) = delete;
  item_waiter& operator=(const item_waiter&) = delete;
  inline ~item_waiter() override;

  [[nodiscard]] inline bool await_ready() noexcept;
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> reader,
                     std::source_location where = std::source_location::current()) {
    begin(reader.promise(), where);
  }

protected:
  /// The next item; null when there is none.
  [[nodiscard]] inline payload_ptr take_item();
  /// Why there is none: the end of the stream, or an error.
  [[nodiscard]] result<void> ended() const;

private:
  friend class stream_inbox;

  void begin(promise_base& reader, std::source_location where);
  void ready() noexcept;
  void expired() noexcept override;
  [[nodiscard]] std::string describe_wait(std::chrono::nanoseconds now) const override;
  [[nodiscard]] std::chrono::nanoseconds since() const noexcept { return due() - limit_.duration; }

  stream_inbox& inbox_;
  deadline_after limit_;
  promise_base* reader_ = nullptr;
  bool late_ = false;
};

/// The consumer's end.
class stream_inbox {
public:
  stream_inbox(stream_table& table, std::uint64_t credit);
  stream_inbox(const stream_inbox&) = delete;
  stream_inbox& operator=(const stream_inbox&) = delete;
  /// Tells the producer that nobody listens.
  ~stream_inbox();

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] std::string actor_name() const;
  [[nodiscard]] std::string producer_name() const;

private:
  friend class item_waiter;
  friend class stream_table;

  void receive(const address& from, parcel& came);
  [[nodiscard]] std::optional<std::chrono::nanoseconds> read_since() const noexcept;
  void give_credit(std::uint64_t items);
  /// A stream has one producer: another one is told that nobody listens to it.
  void refuse(const address& second, std::uint64_t source);
  [[nodiscard]] bool ready() const noexcept { return !batches_.empty() || ended_; }
  /// The next item that has come; null when none has.
  [[nodiscard]] payload_ptr take();

  stream_table& table_;
  std::uint64_t id_;
  std::uint64_t credit_;
  std::uint64_t taken_ = 0;                      ///< Since credit was last given.
  std::deque<std::vector<payload_ptr>> batches_; ///< As they came; none is empty.
  std::size_t next_ = 0;                         ///< The first of the first batch not taken yet.
  bool ended_ = false;
  std::shared_ptr<const error> reason_;
  address producer_;
  std::uint64_t source_ = 0;
  item_waiter* waiter_ = nullptr;
};

inline item_waiter::~item_waiter() {
  if (reader_ != nullptr && inbox_.waiter_ == this) inbox_.waiter_ = nullptr;
}

inline bool item_waiter::await_ready() noexcept {
  late_ = limit_.duration.count() <= 0;
  return late_ || inbox_.ready();
}

inline payload_ptr item_waiter::take_item() {
  return inbox_.take();
}

/// What became of an item that was pushed.
enum class push_outcome : std::uint8_t { accepted, without_credit, without_consumer };

/// A push that waits for credit. No outcome is a `result` before somebody reads it: making one
/// costs more than the push.
class [[nodiscard]] credit_awaiter final : public wait_node, private described_wait {
public:
  credit_awaiter(stream_source* to, payload_ptr item) noexcept : to_(to), item_(std::move(item)) {}
  credit_awaiter(const credit_awaiter&) = delete;
  credit_awaiter& operator=(const credit_awaiter&) = delete;

  [[nodiscard]] inline bool await_ready();
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> writer,
                     std::source_location where = std::source_location::current()) noexcept {
    wait(writer.promise(), where);
  }
  [[nodiscard]] result<void> await_resume() {
    if (refused_) [[unlikely]]
      return failure(std::move(*refused_));
    result<void> accepted; // Not `{}`, which would set all bytes of its error to zero.
    return accepted;
  }

private:
  friend class stream_source;
  void wait(promise_base& writer, std::source_location where) noexcept;
  [[nodiscard]] std::string describe_wait(std::chrono::nanoseconds now) const override;

  void refuse();

  stream_source* to_;
  payload_ptr item_;
  std::optional<error> refused_;
};

/// The producer's end.
class stream_source final : private departure {
public:
  stream_source(stream_table& table, address consumer, std::uint64_t stream);
  stream_source(const stream_source&) = delete;
  stream_source& operator=(const stream_source&) = delete;
  /// Not finished: the consumer is told that the producer was cancelled.
  ~stream_source();

  /// Moves from `item` when it is accepted.
  [[nodiscard]] push_outcome offer(payload_ptr& item) {
    if (cancelled_ || ended_) [[unlikely]]
      return push_outcome::without_consumer;
    if (credit_ == 0) return push_outcome::without_credit;
    --credit_;
    if (batch_.empty()) begin_batch();
    batch_.push_back(std::move(item));
    if (batch_.size() == batch_items_max) depart();
    return push_outcome::accepted;
  }
  /// The same; errc::exhausted without credit, errc::unavailable without consumer.
  [[nodiscard]] result<void> try_push(payload_ptr& item);
  void end(std::shared_ptr<const error> reason);
  [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

private:
  friend class credit_awaiter;
  friend class stream_table;

  // Enough for a message to cost little beside its items, few enough for a consumer on another core
  // to begin while the producer still pushes.
  static constexpr std::size_t batch_items_max = 64;

  void receive(parcel& came);
  void begin_batch();
  void depart() noexcept override;
  [[nodiscard]] error unread() const;
  [[nodiscard]] parcel addressed(parcel_kind kind) const;
  void admit_writers();

  stream_table& table_;
  address consumer_;
  std::uint64_t stream_;
  std::uint64_t id_;
  std::uint64_t credit_ = 0;
  bool cancelled_ = false;
  bool ended_ = false;
  std::vector<payload_ptr> batch_; ///< Pushed, not sent yet.
  std::size_t last_batch_ = 0;     ///< How many items the last batch had: so much is reserved.
  wait_list<credit_awaiter> writers_;
};

inline bool credit_awaiter::await_ready() {
  const push_outcome outcome = to_ != nullptr ? to_->offer(item_) : push_outcome::without_consumer;
  if (outcome == push_outcome::without_consumer) [[unlikely]]
    refuse();
  return outcome != push_outcome::without_credit;
}

/// All stream ends of one actor.
class stream_table {
public:
  stream_table(run_queue& queue, address self) noexcept : queue_(queue), self_(std::move(self)) {}
  stream_table(const stream_table&) = delete;
  stream_table& operator=(const stream_table&) = delete;
  ~stream_table();

  void receive(const address& from, parcel& came);
  /// Adds the readers that have waited longer for an item.
  void add_waits(std::chrono::nanoseconds age, std::vector<long_wait>& waits) const;
  [[nodiscard]] std::size_t size() const noexcept { return inboxes_.size() + sources_.size(); }
  [[nodiscard]] const address& self() const noexcept { return self_; }

private:
  friend class stream_inbox;
  friend class stream_source;

  run_queue& queue_;
  address self_;
  std::unordered_map<std::uint64_t, stream_inbox*> inboxes_;
  std::unordered_map<std::uint64_t, stream_source*> sources_;
};

} // namespace weir::detail
