#include "messages/message_list.hpp"

#include "messages/error.hpp"

#include <atomic>

namespace weir::detail {

namespace {

/// The lists of this program, newest first. Filled before `main`, or when a library is loaded.
constinit std::atomic<const message_list*> newest = nullptr;

const message_entry* find_in(std::span<const message_entry> entries, message_type type) noexcept {
  const auto place = std::ranges::lower_bound(entries, type, {}, &message_entry::type);
  return place != entries.end() && place->type == type ? &*place : nullptr;
}

} // namespace

message_list::message_list(std::span<const message_entry> entries) noexcept : entries_(entries) {
  for (const message_entry& each : entries) {
    const message_entry* const known = find_message(each.type);
    ensure(known == nullptr || known->name == each.name,
           "messages of two catalogues have different types; rename one");
  }
  next_ = newest.load(std::memory_order_relaxed);
  while (!newest.compare_exchange_weak(next_, this, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

const message_entry* message_list::find(message_type type) const noexcept {
  return find_in(entries_, type);
}

const message_entry* find_message(message_type type) noexcept {
  if (const message_entry* const own = find_in(message_catalogue, type); own != nullptr) return own;
  const message_list* list = newest.load(std::memory_order_acquire);
  for (; list != nullptr; list = list->next()) {
    if (const message_entry* const found = list->find(type); found != nullptr) return found;
  }
  return nullptr;
}

} // namespace weir::detail
