/// Events as text: one JSON object a line, in a file `events-<incarnation>.jsonl`.
///
/// Keys are short, stand in the order of this table, and are left out when a value is absent. There
/// is one way to write an event, and a reader accepts only that way: encode(decode(line)) == line.
///
/// | key  | events      | value |
/// |------|-------------|-------|
/// | i    | all         | incarnation |
/// | o    | all         | owner, a string |
/// | n    | all         | sequence of the owner in this incarnation, from 1 |
/// | e    | all         | group, out, step, cut, publish, restore, start, finish |
/// | g    | group, out  | group id; the first of a batch |
/// | f, t | group       | states of a group, in the words of event.hpp |
/// | r    | group       | reason, absent when none |
/// | a    | group       | content attempt, absent when 0 |
/// | c    | out         | groups of the batch |
/// | p    | group, out  | sample: [epoch, position] |
/// | ts   | group       | target step, absent when -1 |
/// | av,w | group       | admission version; window in force then |
/// | sv,ev| group       | version of the first and of the last kept token |
/// | s    | group, step | step, absent from a group event when -1 |
/// | v    | group, step | trainer's version at the claim; version that the step publishes |
/// | x    | group       | leased transaction, absent when 0 |
/// | b    | publish, restore | bundle, a string |
/// | k    | cut, publish, restore | epoch of the barrier: [incarnation, life, number] |
/// | q    | cut         | newest events: {"owner":sequence,...} |
/// | h    | cut         | handed out: [count, low half of the sum, high half] |
/// | y    | cut         | groups per state, without empty: {"ready":[count,low,high],...} |
/// | d    | publish     | parent bundle, a string |
/// | u    | start       | run, a string |
/// | z    | finish      | end_of_data, steps_reached, stopped, failed |
///
/// Strings hold printable ASCII, escaped as \" and \\; other bytes are written as \u00xx. Integers
/// are decimal, without sign, and fit 64 bits (steps: 63).
#pragma once

#include "actors/audit/event.hpp"
#include "messages/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

/// Appends one event's line, with its newline, to `out`.
void encode_event(std::string& out, incarnation life, std::string_view owner,
                  sequence_number sequence, const event& what);
void encode_event(std::string& out, const event_record& record);

/// Reads a line without its newline. `corrupt` says what was expected at which column.
[[nodiscard]] result<event_record> decode_event(std::string_view line);

} // namespace weir
