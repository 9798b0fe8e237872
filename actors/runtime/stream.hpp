/// `stream`: items from one actor to another, never more under way than the consumer has room for.
///
/// The consumer opens a stream, puts its `id()` into a request, and reads:
///   auto tokens = open_stream<TokenBatch>(*this, 16);
///   while (true) { auto item = co_await tokens.next(within(30s)); ... }   // nullopt: the end
/// The producer connects to that id and pushes:
///   auto sink = connect<TokenBatch>(*this, request->stream());
///   auto pushed = co_await sink.push(batch);                             // waits for credit
/// Either end may go away at any time; the other one learns it with its next step.
#pragma once

#include "actors/runtime/detail/actor_access.hpp"
#include "actors/runtime/detail/stream_table.hpp"
#include "messages/message.hpp"

namespace weir {

namespace detail {

template <class Item>
class [[nodiscard]] item_awaiter final : public item_waiter {
public:
  using item_waiter::item_waiter;
  [[nodiscard]] result<std::optional<message<Item>>> await_resume() {
    using read = result<std::optional<message<Item>>>;
    payload_ptr item = take_item();
    if (item == nullptr) [[unlikely]]
      return none();
    if (item->type() != message_traits<Item>::type) [[unlikely]]
      return failure(std::move(view_as<Item>(std::move(item)).error()));
    return read(tl::in_place, std::in_place, std::move(item));
  }

private:
  [[gnu::noinline]] result<std::optional<message<Item>>> none() const {
    if (auto fine = ended(); !fine) return failure(std::move(fine.error()));
    return std::optional<message<Item>>();
  }
};

/// The end of a stream in the directory of the graph; empty when no actor has this name.
[[nodiscard]] address find_actor(const actor& asking, const std::string& name);

} // namespace detail

/// The consumer's end. Lives in a coroutine's frame or in the actor; destroying it cancels.
template <class Item>
class incoming {
public:
  incoming(detail::stream_table& table, std::uint64_t credit)
      : inbox_(std::make_unique<detail::stream_inbox>(table, credit)) {}

  /// What the producer needs to connect: goes into a request.
  [[nodiscard]] StreamRefT id() const {
    StreamRefT reference;
    reference.actor = inbox_->actor_name();
    reference.id = inbox_->id();
    return reference;
  }
  /// Suspends until there is an item, or the end of the stream (nullopt). Errors: the producer's
  /// own, errc::cancelled when it was destroyed without `finish`, errc::timed_out. @pre the caller
  /// holds no lease
  [[nodiscard]] detail::item_awaiter<Item>
  next(deadline_after limit, std::source_location where = std::source_location::current()) {
    detail::ensure_without_lease("the next item of a stream", where);
    return detail::item_awaiter<Item>(*inbox_, limit);
  }

private:
  std::unique_ptr<detail::stream_inbox> inbox_;
};

/// The producer's end. Destroyed without `finish` or `fail`, the consumer gets errc::cancelled.
template <class Item>
class sink {
public:
  sink(detail::stream_table& table, detail::address consumer, std::uint64_t stream)
      : source_(std::make_unique<detail::stream_source>(table, std::move(consumer), stream)) {}

  /// Suspends until the consumer has room. errc::unavailable once it is gone. What one turn pushes
  /// travels together, in order with everything else that this actor sends to the consumer. @pre
  /// the caller holds no lease (`try_push` may be called under one)
  [[nodiscard]] detail::credit_awaiter
  push(message<Item> item, std::source_location where = std::source_location::current()) {
    detail::ensure_without_lease("credit of a stream", where);
    return detail::credit_awaiter(source_.get(), std::move(item).content());
  }
  /// As push, but errc::exhausted instead of a wait.
  [[nodiscard]] result<void> try_push(message<Item> item) {
    payload_ptr content = std::move(item).content();
    return source_->try_push(content);
  }
  /// No more items: the consumer gets the end of the stream after those under way.
  void finish() { source_->end(nullptr); }
  /// No more items because of an error, which the consumer gets after those under way.
  void fail(error reason) { source_->end(std::make_shared<const error>(std::move(reason))); }
  /// Whether the consumer has gone away.
  [[nodiscard]] bool cancelled() const noexcept { return source_->cancelled(); }

private:
  std::unique_ptr<detail::stream_source> source_;
};

/// Opens the consumer's end in an actor; at most `credit` items are under way. @pre credit > 0
template <class Item>
[[nodiscard]] incoming<Item> open_stream(actor& consumer, std::uint64_t credit) {
  return incoming<Item>(detail::actor_access::streams(consumer), credit);
}

/// Connects an actor, as the producer, to a stream that was named in a request. A name that no
/// actor has gives a sink whose pushes fail with errc::unavailable.
template <class Item>
[[nodiscard]] sink<Item> connect(actor& producer, const StreamRefT& reference) {
  return sink<Item>(detail::actor_access::streams(producer),
                    detail::find_actor(producer, reference.actor), reference.id);
}
template <class Item>
[[nodiscard]] sink<Item> connect(actor& producer, const StreamRef* reference) {
  StreamRefT named;
  if (reference != nullptr) reference->UnPackTo(&named);
  return connect<Item>(producer, named);
}

} // namespace weir
