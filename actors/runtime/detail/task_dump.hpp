/// Suspended coroutines as text, for people: short names of functions and files, and what each one
/// waits for.
#pragma once

#include <chrono>
#include <exception>
#include <source_location>
#include <string>
#include <string_view>

namespace weir::detail {

class promise_base;

/// "keeper::on_start" of what a compiler calls
/// "weir::task<weir::result<int> > weir::test::keeper::on_start(int)".
[[nodiscard]] std::string short_function(std::string_view pretty);
/// "keeper.cpp:48".
[[nodiscard]] std::string short_place(const std::source_location& where);
/// "2.5 s", "250 ms".
[[nodiscard]] std::string age_text(std::chrono::nanoseconds age);

/// Where a coroutine stands, at its last wait, or where it was made: "keeper::on_start
/// (keeper.cpp:48)".
[[nodiscard]] std::string frame_text(const promise_base& task);
/// The coroutine and those that cannot go on before its end, innermost first: "reader::parse
/// (reader.cpp:12), called by reader::on_probe (reader.cpp:30)".
[[nodiscard]] std::string stack_text(const promise_base& innermost);
/// What a library threw, in words.
[[nodiscard]] std::string exception_text(const std::exception_ptr& thrown);

/// From here on a failed `ensure` prints the tree of the actor on whose turn it failed.
void print_tasks_on_ensure() noexcept;

} // namespace weir::detail
