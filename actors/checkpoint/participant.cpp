#include "actors/checkpoint/participant.hpp"

#include "actors/runtime/combinators.hpp"
#include "actors/runtime/failpoint.hpp"
#include "actors/runtime/offload.hpp"

#include <chrono>
#include <memory>

namespace weir {

epoch_id epoch_of(const EpochId* epoch) {
  if (epoch == nullptr) return {};
  return {epoch->incarnation(), epoch->life(), epoch->number()};
}

std::unique_ptr<EpochId> wire_epoch(epoch_id epoch) {
  return std::make_unique<EpochId>(epoch.incarnation, epoch.life, epoch.number);
}

Hash128 wire_sum(const group_tally& tally) {
  return {tally.sum_low, tally.sum_high};
}

group_tally tally_from(std::uint64_t count, const Hash128* sum) {
  group_tally tally;
  tally.count = count;
  if (sum != nullptr) {
    tally.sum_low = sum->low();
    tally.sum_high = sum->high();
  }
  return tally;
}

result<std::vector<dataplane::finished_section>>
write_one_section(const section_target& target, std::string path,
                  std::span<const std::byte> payload) {
  auto written = dataplane::write_section(target.storage, target.directory, std::move(path),
                                          target.epoch, payload, target.pace);
  if (!written) return failure(std::move(written.error()));
  return std::vector<dataplane::finished_section>{std::move(*written)};
}

dataplane::finished_section section_from(const SectionFile& file, epoch_id epoch) {
  dataplane::finished_section section;
  section.file.path = text_of(file.path());
  section.file.bytes = file.size();
  if (file.checksum() != nullptr)
    section.file.checksum = {file.checksum()->low(), file.checksum()->high()};
  section.epoch = epoch;
  return section;
}

namespace {

std::unique_ptr<TallyT> wire_tally(std::string_view state, const group_tally& tally) {
  auto wire = std::make_unique<TallyT>();
  wire->state = state;
  wire->count = tally.count;
  wire->sum = std::make_unique<Hash128>(wire_sum(tally));
  return wire;
}

std::vector<std::unique_ptr<TallyT>> wire_tallies(const cut_tallies& tallies) {
  std::vector<std::unique_ptr<TallyT>> wire;
  if (tallies.handed_out.count > 0) wire.push_back(wire_tally("handed_out", tallies.handed_out));
  for (std::size_t state = 0; state < group_states; ++state) {
    if (tallies.in_state[state].count > 0)
      wire.push_back(
          wire_tally(to_string(static_cast<group_state>(state)), tallies.in_state[state]));
  }
  return wire;
}

result<void> give_way_between_pieces(std::uint64_t /*bytes*/) {
  std::ignore = give_way();
  return {};
}

std::unique_ptr<SectionFileT> wire_file(const dataplane::finished_section& section) {
  auto wire = std::make_unique<SectionFileT>();
  wire->path = section.file.path;
  wire->size = section.file.bytes;
  wire->checksum = std::make_unique<Hash128>(section.file.checksum.low, section.file.checksum.high);
  return wire;
}

} // namespace

participant::participant(context ctx, barrier_role role, event_sink& events)
    : actor(std::move(ctx)), role_(role), events_(events, name()) {
  serve(&participant::on_announce);
  if (role != barrier_role::only_owner) {
    serve(&participant::on_quiesce);
    serve(&participant::on_resume);
  }
  if (role != barrier_role::only_origin) {
    serve(&participant::on_cut);
    serve(&participant::on_write);
    serve(&participant::on_release);
  }
  serve(&participant::on_abort);
}

void participant::restored_with(const std::vector<group_event>& changes) {
  for (const group_event& change : changes)
    events_.append(change);
  if (!changes.empty()) mutated();
}

cut_tallies participant::tallies() {
  return role_ == barrier_role::only_origin ? cut_tallies() : capture().tallies;
}

captured_section participant::capture() {
  ensure(false, "an owner says how it is captured");
  return {};
}

task<result<message<Announced>>> participant::on_announce(message<Announce> request) {
  if (role_ != barrier_role::only_origin && capturable()) prepare_capture();
  AnnouncedT answer;
  answer.epoch = wire_epoch(epoch_of(request->epoch()));
  co_return pack(answer);
}

task<result<message<Quiesced>>> participant::on_quiesce(message<Quiesce> request) {
  const epoch_id epoch = epoch_of(request->epoch());
  const std::int64_t closed_at = clock().now();
  mutations().close(epoch, std::chrono::nanoseconds(request->hold_limit_ns()));
  const std::chrono::nanoseconds patience(request->answer_within_ns());
  auto settled = co_await with_deadline(leases_settled(epoch), within(patience));
  if (!settled && settled.error().code == errc::timed_out)
    co_return failure(errc::conflict, "a lease is still held: " + mutations().oldest());
  if (!settled) co_return failure(std::move(settled.error()));
  QuiescedT answer;
  answer.epoch = wire_epoch(epoch);
  answer.drain_ns = static_cast<std::uint64_t>(clock().now() - closed_at);
  co_return pack(answer);
}

task<result<void>> participant::leases_settled(epoch_id epoch) {
  auto settled = co_await mutations().quiesced(epoch);
  co_return std::move(settled);
}

task<result<message<Resumed>>> participant::on_resume(message<Resume> request) {
  const epoch_id epoch = epoch_of(request->epoch());
  ResumedT answer;
  answer.held = mutations().open(epoch);
  answer.epoch = wire_epoch(epoch);
  co_return pack(answer);
}

task<void> participant::on_abort(message<AbortEpoch> request) {
  const epoch_id epoch = epoch_of(request->epoch());
  if (role_ != barrier_role::only_owner) mutations().abort(epoch);
  if (role_ != barrier_role::only_origin) captured_.abort(epoch);
  co_return;
}

task<result<message<Captured>>> participant::on_cut(message<Cut> request) {
  const epoch_id epoch = epoch_of(request->epoch());
  if (auto fine = capturable(); !fine) co_return failure(std::move(fine.error()));
  const auto facts = captured_.cut(epoch, [this] { return capture(); });
  if (!facts)
    co_return failure(errc::conflict, "the cut of epoch " + to_string(epoch) + " comes too late");
  const auto section = captured_.section(epoch);
  CapturedT answer;
  answer.epoch = wire_epoch(epoch);
  answer.tainted = facts->tainted;
  answer.mutations = facts->mutations;
  if (section) {
    answer.sequence = (*section)->sequence.value;
    answer.trainer_step = (*section)->trainer_step;
    answer.tallies = wire_tallies((*section)->tallies);
    captured_step_ = std::max(captured_step_, (*section)->trainer_step);
  }
  cut_happened_.raise();
  co_return pack(answer);
}

/// Writes from the capture, which the work in flight owns: an abort in between takes nothing away
/// from under it, and the file's epoch keeps it out of any other bundle.
task<result<message<SectionWritten>>> participant::on_write(message<WriteSection> request) {
  const epoch_id epoch = epoch_of(request->epoch());
  auto section = captured_.section(epoch);
  if (!section) co_return failure(std::move(section.error()));
  const section_target target{env().storage(), text_of(request->directory()), epoch,
                              text_of(request->link_policy_from()), &give_way_between_pieces};
  const auto captured = *section;
  auto work = [captured, target]() -> result<std::vector<dataplane::finished_section>> {
    if (auto fine = hit_failpoint("bundle.section"); !fine) return failure(std::move(fine.error()));
    return captured->write(target);
  };
  auto written = co_await offload_in_background(std::move(work));
  if (!written) co_return failure(std::move(written.error()));
  if (auto fine = captured_.publishable(epoch); !fine) co_return failure(std::move(fine.error()));
  SectionWrittenT answer;
  answer.epoch = wire_epoch(epoch);
  for (const auto& file : *written)
    answer.files.push_back(wire_file(file));
  co_return pack(answer);
}

task<void> participant::on_release(message<ReleaseCapture> request) {
  captured_.release(epoch_of(request->epoch()));
  co_return;
}

} // namespace weir
