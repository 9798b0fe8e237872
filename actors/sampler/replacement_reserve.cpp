#include "actors/sampler/replacement_reserve.hpp"

#include "actors/section.hpp"
#include "messages/limits.hpp"

#include <string>
#include <utility>

namespace weir {

namespace {

tl::unexpected<error> corrupt(const std::string& text) {
  return failure(errc::corrupt,
                 std::string(replacement_reserve_file) + ": " + text + "; use another bundle");
}

std::unique_ptr<SpareRecordT> pack(const group_reservation& spare) {
  auto packed = std::make_unique<SpareRecordT>();
  packed->group = spare.group.value;
  packed->sample = std::make_unique<SampleId>(spare.sample.epoch, spare.sample.position);
  packed->content_hash = std::make_unique<Hash128>(spare.hash.low, spare.hash.high);
  packed->task = spare.task;
  packed->siblings = spare.siblings;
  return packed;
}

result<group_reservation> unpack(const SpareRecordT& packed) {
  const std::string name = "group " + std::to_string(packed.group);
  if (packed.sample == nullptr || packed.content_hash == nullptr)
    return corrupt(name + " has no sample id or no content hash");
  if (packed.siblings == 0 || packed.siblings > limits::siblings_per_group_max)
    return corrupt(name + " has " + std::to_string(packed.siblings) + " siblings");
  group_reservation spare;
  spare.group = group_id(packed.group);
  spare.sample = {.epoch = packed.sample->epoch(), .position = packed.sample->position()};
  spare.hash = {.low = packed.content_hash->low(), .high = packed.content_hash->high()};
  spare.task = packed.task;
  spare.siblings = packed.siblings;
  return spare;
}

result<void> unpack_spares(const ReplacementReserveT& packed, sampler_image& image) {
  for (const auto& one : packed.spares) {
    auto spare = unpack(*one);
    if (!spare) return failure(spare.error());
    const std::string name = "group " + std::to_string(one->group);
    if (image.reserve.contains(one->group)) return corrupt(name + " stands in the reserve twice");
    if (image.find(spare->group) != nullptr) return corrupt(name + " stands in the ledger too");
    image.set_aside(std::move(*spare));
  }
  return {};
}

} // namespace

std::vector<std::byte> encode_reserve(const sampler_image& image, epoch_id epoch) {
  ReplacementReserveT packed;
  packed.format_version = replacement_reserve_format;
  packed.epoch_id = std::make_unique<EpochId>(epoch.incarnation, epoch.life, epoch.number);
  image.reserve.for_each([&](std::uint64_t, const std::shared_ptr<const group_reservation>& spare) {
    packed.spares.push_back(pack(*spare));
  });
  return pack_section(packed);
}

result<void> decode_reserve(std::span<const std::byte> section, decoded_sampler& ledger) {
  ReplacementReserveT packed;
  if (!section.empty()) {
    auto read = unpack_section<ReplacementReserve>(section, replacement_reserve_file,
                                                   replacement_reserve_format);
    if (!read) return failure(read.error());
    packed = std::move(*read);
  }
  if (packed.spares.size() != ledger.spares)
    return corrupt(std::to_string(packed.spares.size()) +
                   " spares, rollout_recovery.fb announces " + std::to_string(ledger.spares));
  sampler_image filled = ledger.image;
  if (auto done = unpack_spares(packed, filled); !done) return done;
  ledger.image = std::move(filled);
  return {};
}

} // namespace weir
