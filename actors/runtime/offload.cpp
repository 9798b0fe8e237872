#include "actors/runtime/offload.hpp"

#include "actors/runtime/detail/ask_table.hpp"
#include "actors/runtime/detail/graph_core.hpp"
#include "actors/runtime/detail/task_dump.hpp"

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

blocking_pool& pool_of_this_turn(work_class kind) {
  run_queue* queue = run_queue::current();
  ensure(queue != nullptr, "work is offloaded on an actor's turn");
  return queue->host().host_pool(kind);
}

error describe_exception(const std::exception_ptr& thrown) {
  return error{errc::internal, exception_text(thrown) + "; thrown by blocking work"};
}

} // namespace weir::detail
