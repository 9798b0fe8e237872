/// Build-time program: turns the binary schemas into message traits.
///
///     catalogue OUTPUT SCHEMA.bfbs...
///
/// For every table it writes its type id (a hash of its full name, which never changes), its name,
/// whether the schema marks it `mutating`, whether it names a stream; and one table of verifiers by
/// type id. The schemas stay the only list of messages there is.
#include <flatbuffers/reflection.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

struct entry {
  std::string name;
  bool mutating = false;
  bool names_stream = false;
};

/// FNV-1a of the full name: stable over builds, machines and the order of schemas.
std::uint32_t type_id(const std::string& name) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return hash;
}

/// Whether a field of the table is a `StreamRef`: its receiver looks for the other end.
bool names_stream(const reflection::Schema& schema, const reflection::Object& table) {
  for (const auto* field : *table.fields()) {
    if (field->type()->base_type() != reflection::Obj) continue;
    const auto index = static_cast<flatbuffers::uoffset_t>(field->type()->index());
    if (schema.objects()->Get(index)->name()->str() == "weir.StreamRef") return true;
  }
  return false;
}

bool collect(const char* path, std::map<std::uint32_t, entry>& entries) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (!file || !reflection::VerifySchemaBuffer(verifier)) {
    std::fprintf(stderr, "catalogue: %s is not a binary schema\n", path);
    return false;
  }
  const auto& schema = *reflection::GetSchema(bytes.data());
  for (const auto* object : *schema.objects()) {
    if (object->is_struct()) continue;
    entry found{object->name()->str(), false, names_stream(schema, *object)};
    if (object->attributes() != nullptr)
      found.mutating = object->attributes()->LookupByKey("mutating") != nullptr;
    const auto [place, added] = entries.emplace(type_id(found.name), found);
    if (!added && place->second.name != found.name) {
      std::fprintf(stderr, "catalogue: %s and %s have the same type id; rename one\n",
                   found.name.c_str(), place->second.name.c_str());
      return false;
    }
  }
  return true;
}

std::string qualified(const std::string& name) {
  std::string text = "::";
  for (const char letter : name)
    text += letter == '.' ? std::string("::") : std::string(1, letter);
  return text;
}

void write(std::ofstream& out, const std::map<std::uint32_t, entry>& entries) {
  out << "// Made from the binary schemas by messages/catalogue.cpp.\n#pragma once\n\n"
         "#include \"messages/schemas.hpp\"\n#include \"messages/traits.hpp\"\n\nnamespace weir "
         "{\n\n";
  for (const auto& [id, found] : entries) {
    const std::string short_name = found.name.substr(found.name.rfind('.') + 1);
    out << "template <>\nstruct message_traits<" << qualified(found.name) << "> {\n"
        << "  static constexpr message_type type{" << id << "U};\n"
        << "  static constexpr std::string_view name = \"" << short_name << "\";\n"
        << "  static constexpr bool mutating = " << (found.mutating ? "true" : "false") << ";\n"
        << "  static constexpr bool names_stream = " << (found.names_stream ? "true" : "false")
        << ";\n};\n";
  }
  out << "\nnamespace detail {\n\ninline constexpr message_entry message_catalogue[] = {\n";
  for (const auto& [id, found] : entries)
    out << "    entry_of<" << qualified(found.name) << ">(),\n";
  out << "};\n\n} // namespace detail\n} // namespace weir\n";
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: catalogue OUTPUT SCHEMA.bfbs...\n");
    return 2;
  }
  std::map<std::uint32_t, entry> entries;
  for (int i = 2; i < argc; ++i) {
    if (!collect(argv[i], entries)) return 1;
  }
  std::ofstream out(argv[1]);
  write(out, entries);
  return out.good() ? 0 : 1;
}
