/// Build-time program: turns binary schemas into message traits.
///
///     weir-catalogue OUTPUT.hpp SCHEMA.bfbs...             a program's own schemas
///     weir-catalogue --library OUTPUT.hpp SCHEMA.bfbs...   those of messages/
///
/// For every table it writes its type id (a hash of its full name, which never changes), its name,
/// and whether the schema marks it `mutating`; and one table of verifiers by type id. The schemas
/// stay the only list of messages there is. Tables of the namespace `weir` are the library's: a
/// program's schema may include them, and its catalogue leaves them out.
#include <flatbuffers/reflection.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

struct entry {
  std::string name;
  bool mutating = false;
};

/// FNV-1a of the full name: stable over builds, machines and the order of schemas.
std::uint32_t type_id(const std::string& name) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return hash;
}

bool collect(const std::string& path, std::map<std::uint32_t, entry>& entries) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (!file || !reflection::VerifySchemaBuffer(verifier)) {
    std::fprintf(stderr, "weir-catalogue: %s is not a binary schema\n", path.c_str());
    return false;
  }
  for (const auto* object : *reflection::GetSchema(bytes.data())->objects()) {
    if (object->is_struct()) continue;
    entry found{object->name()->str(), false};
    if (object->attributes() != nullptr)
      found.mutating = object->attributes()->LookupByKey("mutating") != nullptr;
    const auto [place, added] = entries.emplace(type_id(found.name), found);
    if (!added && place->second.name != found.name) {
      std::fprintf(stderr, "weir-catalogue: %s and %s have the same type id; rename one\n",
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

void write_traits(std::ofstream& out, const std::map<std::uint32_t, entry>& entries) {
  for (const auto& [id, found] : entries) {
    const std::string short_name = found.name.substr(found.name.rfind('.') + 1);
    out << "template <>\nstruct message_traits<" << qualified(found.name) << "> {\n"
        << "  static constexpr message_type type{" << id << "U};\n"
        << "  static constexpr std::string_view name = \"" << short_name << "\";\n"
        << "  static constexpr bool mutating = " << (found.mutating ? "true" : "false")
        << ";\n};\n";
  }
}

void write_entries(std::ofstream& out, const std::map<std::uint32_t, entry>& entries,
                   const std::string& name) {
  out << "inline constexpr message_entry " << name << "[] = {\n";
  for (const auto& [id, found] : entries)
    out << "    entry_of<" << qualified(found.name) << ">(),\n";
  out << "};\n";
}

void write_library(std::ofstream& out, const std::map<std::uint32_t, entry>& entries) {
  out << "// Made from the binary schemas by messages/catalogue.cpp.\n#pragma once\n\n"
         "#include \"messages/schemas.hpp\"\n#include \"messages/traits.hpp\"\n\nnamespace weir "
         "{\n\n";
  write_traits(out, entries);
  out << "\nnamespace detail {\n\n";
  write_entries(out, entries, "message_catalogue");
  out << "\n} // namespace detail\n} // namespace weir\n";
}

/// The name of a file without its folder and its extension.
std::string stem_of(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

/// Includes the headers that flatc made from the same schemas, as system headers: their warnings
/// are flatc's, not the program's.
void write_program(std::ofstream& out, std::map<std::uint32_t, entry> entries,
                   const std::string& name, const std::vector<std::string>& schemas) {
  std::erase_if(entries, [](const auto& each) { return each.second.name.starts_with("weir."); });
  out << "// Made from the binary schemas by weir-catalogue.\n#pragma once\n"
         "#pragma GCC system_header\n\n#if __cplusplus < 202002L\n#error \"weir is C++20: compile "
         "with -std=c++20 or newer\"\n#endif\n\n";
  for (const std::string& schema : schemas)
    out << "#include \"" << stem_of(schema) << "_generated.h\"\n";
  out << "\n#include \"messages/message_list.hpp\"\n\nnamespace weir {\n\n";
  write_traits(out, entries);
  out << "\nnamespace detail {\n\n";
  for (const auto& [id, found] : entries)
    out << "static_assert(!is_of_the_library(message_type{" << id << "U}),\n              \""
        << found.name << " has the type id of a message of the library; rename it\");\n";
  write_entries(out, entries, name + "_entries");
  out << "inline const message_list " << name << "_list(" << name << "_entries);\n"
      << "\n} // namespace detail\n} // namespace weir\n";
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool library = !arguments.empty() && arguments.front() == "--library";
  const std::size_t first = library ? 1 : 0;
  if (arguments.size() < first + 2) {
    std::fprintf(stderr, "usage: weir-catalogue [--library] OUTPUT.hpp SCHEMA.bfbs...\n");
    return 2;
  }
  const std::string& output = arguments[first];
  const std::vector<std::string> schemas(arguments.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                                         arguments.end());
  std::map<std::uint32_t, entry> entries;
  for (const std::string& schema : schemas) {
    if (!collect(schema, entries)) return 1;
  }
  std::ofstream out(output);
  if (library)
    write_library(out, entries);
  else
    write_program(out, std::move(entries), stem_of(output), schemas);
  out.close();
  if (out.good()) return 0;
  std::fprintf(stderr, "weir-catalogue: cannot write %s\n", output.c_str());
  return 1;
}
