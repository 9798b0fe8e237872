/// Sections of a bundle that are one FlatBuffer: written from the object API, verified before
/// anything of them is read. Bytes, not files: who reads and writes files is the shell.
#pragma once

#include "messages/error.hpp"
#include "messages/limits.hpp"

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir {

/// Packs an object of the generated object API as the root of a buffer.
template <class Object>
[[nodiscard]] std::vector<std::byte> pack_section(const Object& object) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Object::TableType::Pack(builder, &object));
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {bytes.begin(), bytes.end()};
}

/// Verifies and unpacks a section; `file` is its name, for errors. Errors: corrupt if the bytes are
/// no such table, unsupported if `format_version` is newer than `format_max`.
template <class Table>
[[nodiscard]] result<typename Table::NativeTableType>
unpack_section(std::span<const std::byte> section, const std::string& file,
               std::uint32_t format_max) {
  // FlatBuffers are read in place, so they must be aligned; bytes from a file need not be.
  std::vector<std::byte> aligned(section.begin(), section.end());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(aligned.data());
  if (aligned.size() < sizeof(flatbuffers::uoffset_t) ||
      aligned.size() > FLATBUFFERS_MAX_BUFFER_SIZE)
    return failure(errc::corrupt, file + ": " + std::to_string(aligned.size()) +
                                      " bytes are no section; use another bundle");
  flatbuffers::Verifier verifier(bytes, aligned.size(), limits::verifier_depth_max,
                                 limits::verifier_tables_max);
  if (!verifier.template VerifyBuffer<Table>(nullptr))
    return failure(errc::corrupt, file + ": the bytes are not a valid section; use another bundle");
  const Table* root = flatbuffers::GetRoot<Table>(bytes);
  if (root->format_version() > format_max)
    return failure(errc::unsupported, file + ": format " + std::to_string(root->format_version()) +
                                          " is newer than " + std::to_string(format_max) +
                                          "; use a newer program");
  if (root->format_version() == 0)
    return failure(errc::corrupt, file + ": the format version is missing; use another bundle");
  typename Table::NativeTableType object;
  root->UnPackTo(&object);
  return object;
}

} // namespace weir
