#include "dataplane/checksum.hpp"

#include "messages/error.hpp"

#include <xxhash.h>
#if defined(WEIR_XXHASH_DISPATCH)
#  include <xxh_x86dispatch.h> // Replaces the calls by those that choose by processor.
#endif

#include <array>
#include <cinttypes>
#include <cstdio>

namespace weir::dataplane {

namespace {

checksum128 from_library(XXH128_hash_t digest) {
  return {digest.low64, digest.high64};
}

} // namespace

struct checksum_stream::state {
  XXH3_state_t* library = nullptr;

  state() : library(XXH3_createState()) {
    ensure(library != nullptr, "there is memory for a checksum");
    ensure(XXH3_128bits_reset(library) == XXH_OK, "a checksum can be started");
  }
  ~state() { XXH3_freeState(library); }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
};

std::string to_string(checksum128 checksum) {
  std::array<char, 33> digits{};
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64 "%016" PRIx64, checksum.high,
                checksum.low);
  return digits.data();
}

checksum128 checksum_of(std::span<const std::byte> bytes) {
  return from_library(XXH3_128bits(bytes.data(), bytes.size()));
}

checksum_stream::checksum_stream() : state_(std::make_unique<state>()) {}
checksum_stream::~checksum_stream() = default;
checksum_stream::checksum_stream(checksum_stream&& other) noexcept = default;
checksum_stream& checksum_stream::operator=(checksum_stream&& other) noexcept = default;

void checksum_stream::update(std::span<const std::byte> bytes) {
  ensure(XXH3_128bits_update(state_->library, bytes.data(), bytes.size()) == XXH_OK,
         "a checksum takes any bytes");
}

checksum128 checksum_stream::digest() const {
  return from_library(XXH3_128bits_digest(state_->library));
}

} // namespace weir::dataplane
