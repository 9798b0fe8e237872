#include "actors/runtime/offload.hpp"

#include "actors/runtime/detail/ask_table.hpp"
#include "actors/runtime/detail/graph_core.hpp"

namespace weir::detail {

namespace {
ask_table& asks_of_this_turn() {
  run_queue* queue = run_queue::current();
  ensure(queue != nullptr, "completions are made on an actor's turn");
  ask_table* asks = queue->host().host_asks();
  ensure(asks != nullptr, "completions are made inside an actor");
  return *asks;
}
} // namespace

address self_of_this_turn() {
  return asks_of_this_turn().self();
}

blocking_pool& pool_of_this_turn() {
  run_queue* queue = run_queue::current();
  ensure(queue != nullptr, "work is offloaded on an actor's turn");
  return queue->host().host_pool();
}

error describe_exception(const std::exception_ptr& thrown) {
  error described{errc::internal, "blocking work ended by an unknown exception"};
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& known) {
    described.text = std::string("blocking work ended by an exception: ") + known.what();
  } catch (...) {
    described.text += ", not derived from std::exception";
  }
  return described;
}

} // namespace weir::detail
