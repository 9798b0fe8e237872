#include "dataplane/bundle_reader.hpp"

#include "dataplane/set_aside.hpp"

#include <algorithm>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
/// A section that is read whole is never larger; a sparse file may say that it is.
constexpr std::uint64_t whole_file_bytes_max = std::uint64_t{1} << 40;

struct read_manifest {
  manifest content;
  checksum128 checksum;
};

result<read_manifest> read_manifest_of(disk& storage, const std::string& directory) {
  const std::string path = join(directory, manifest_name);
  auto bytes = read_file(storage, path, manifest_bytes_max);
  if (!bytes && bytes.error().code == errc::not_found)
    return failure(errc::corrupt, path + ": missing");
  if (!bytes && bytes.error().code == errc::exhausted)
    return failure(errc::corrupt, bytes.error().text);
  if (!bytes) return failure(std::move(bytes.error()));
  auto content = decode_manifest(*bytes);
  if (!content) return failure(content.error().code, path + ": " + content.error().text);
  return read_manifest{std::move(*content), checksum_of(*bytes)};
}

/// Reads a whole file through one buffer and compares it with its manifest.
result<void> verify_file(disk& storage, const std::string& path, const manifest_file& expected) {
  const auto opened = open_listed_file(storage, path, expected);
  if (!opened) return failure(opened.error());
  checksum_stream checksum;
  std::vector<std::byte> chunk(std::min<std::uint64_t>(chunk_bytes, expected.bytes));
  for (std::uint64_t offset = 0; offset < expected.bytes;) {
    const auto count = (*opened)->read_at(offset, chunk);
    if (!count) return failure(count.error());
    if (*count == 0) return failure(errc::corrupt, path + ": became shorter while it was read");
    checksum.update(std::span(chunk).first(*count));
    offset += *count;
  }
  if (checksum.digest() != expected.checksum)
    return failure(errc::corrupt, path + ": checksum " + to_string(checksum.digest()) +
                                      ", and the manifest says " + to_string(expected.checksum));
  return {};
}

/// Files of the bundle that its manifest does not name.
std::vector<bundle_problem> additional_files(disk& storage, const std::string& path,
                                             const manifest& content) {
  std::vector<bundle_problem> problems;
  std::vector<std::string> folders{std::string()};
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    const auto entries = storage.list(folder.empty() ? path : join(path, folder));
    if (!entries) {
      problems.push_back({folder, entries.error()});
      continue;
    }
    for (const directory_entry& entry : *entries) {
      const std::string inner = join(folder, entry.name);
      if (entry.kind == entry_kind::directory)
        folders.push_back(inner);
      else if (inner != manifest_name && content.find(inner) == nullptr)
        problems.push_back(
            {inner, error{errc::corrupt, join(path, inner) + ": the manifest does not name it"}});
    }
  }
  return problems;
}

std::vector<bundle_problem> verify_files(disk& storage, const std::string& path,
                                         const manifest& content) {
  std::vector<bundle_problem> problems;
  for (const manifest_file& file : content.files) {
    auto good = verify_file(storage, join(path, file.path), file);
    if (good) continue;
    const char* separator = "; shared with ";
    for (const bundle_name sharer : sharers_of(storage, path, file.path))
      good.error().text.append(std::exchange(separator, ", ")).append(to_string(sharer));
    problems.push_back({file.path, std::move(good.error())});
  }
  return problems;
}

bool is_newer(const broken_bundle& candidate, const bundle& chosen) {
  return candidate.epoch ? *candidate.epoch > chosen.content.epoch : candidate.name > chosen.name;
}

/// A bundle of a newer format is no reason to fall back behind it: it is healthy, for its program.
result<void> refuse_newer_formats(const std::vector<broken_bundle>& passed_over) {
  for (const broken_bundle& broken : passed_over)
    if (broken.reason.code == errc::unsupported)
      return failure(errc::unsupported, broken.reason.text +
                                            "; use the program that wrote it, or name an older "
                                            "bundle to go back to");
  return {};
}

/// The incarnation that an entry which is no bundle any more, or not yet, tells of.
incarnation incarnation_of_remains(disk& storage, const std::string& path,
                                   const std::string& name) {
  if (const auto epoch = parse_temporary_name(name)) return incarnation(epoch->incarnation);
  if (!name.starts_with(abandoned_prefix) && !name.starts_with(retired_prefix))
    return incarnation(0);
  const auto read = read_manifest_of(storage, path);
  return incarnation(read ? read->content.epoch.incarnation : 0);
}

} // namespace

result<std::unique_ptr<file>> open_listed_file(disk& storage, const std::string& path,
                                               const manifest_file& expected) {
  auto opened = storage.open(path);
  if (!opened && opened.error().code == errc::not_found)
    return failure(errc::corrupt, path + ": missing");
  if (!opened) return failure(std::move(opened.error()));
  const auto bytes = (*opened)->size();
  if (!bytes) return failure(bytes.error());
  if (*bytes != expected.bytes)
    return failure(errc::corrupt, path + ": has " + std::to_string(*bytes) +
                                      " bytes, and the manifest says " +
                                      std::to_string(expected.bytes));
  return opened;
}

result<bundle_survey> survey_bundles(disk& storage, const std::string& checkpoint_directory) {
  bundle_survey survey;
  const auto entries = storage.list(checkpoint_directory);
  if (!entries && entries.error().code == errc::not_found) return survey;
  if (!entries) return failure(entries.error());
  for (const directory_entry& entry : *entries) {
    if (entry.kind != entry_kind::directory) continue;
    incarnation seen =
        incarnation_of_remains(storage, join(checkpoint_directory, entry.name), entry.name);
    if (const auto name = parse_bundle_name(entry.name)) {
      auto opened = open_bundle(storage, checkpoint_directory, *name);
      if (opened) {
        seen = incarnation(opened->content.epoch.incarnation);
        survey.readable.push_back(std::move(*opened));
      } else {
        survey.broken.push_back({*name, std::nullopt, std::move(opened.error())});
      }
    }
    survey.highest_incarnation = std::max(survey.highest_incarnation, seen);
  }
  std::ranges::sort(survey.readable, std::ranges::greater{},
                    [](const bundle& found) { return found.content.epoch; });
  return survey;
}

result<std::optional<bundle_choice>> newest_valid_bundle(disk& storage,
                                                         const std::string& checkpoint_directory,
                                                         const bundle_survey& survey) {
  std::vector<broken_bundle> invalid = survey.broken;
  for (const bundle& candidate : survey.readable) {
    const std::string path = join(checkpoint_directory, to_string(candidate.name));
    auto problems = verify_files(storage, path, candidate.content);
    if (problems.empty()) {
      bundle_choice choice{candidate, {}};
      std::ranges::copy_if(invalid, std::back_inserter(choice.passed_over),
                           [&](const auto& broken) { return is_newer(broken, candidate); });
      if (auto refused = refuse_newer_formats(choice.passed_over); !refused)
        return failure(std::move(refused.error()));
      return choice;
    }
    error reason = std::move(problems.front().reason);
    if (problems.size() > 1)
      reason.text += "; " + std::to_string(problems.size() - 1) + " more files are damaged";
    invalid.push_back({candidate.name, candidate.content.epoch, std::move(reason)});
  }
  if (invalid.empty()) return std::nullopt;
  if (auto refused = refuse_newer_formats(invalid); !refused)
    return failure(std::move(refused.error()));
  std::string text = checkpoint_directory + ": none of its bundles is valid, and a run does not " +
                     "start over by itself";
  for (const broken_bundle& broken : invalid)
    text += "\n  " + broken.reason.text;
  return failure(errc::corrupt, std::move(text));
}

result<bundle> open_bundle(disk& storage, const std::string& checkpoint_directory,
                           bundle_name name) {
  const std::string path = join(checkpoint_directory, to_string(name));
  const auto status = storage.stat(path);
  if (!status) return failure(status.error());
  if (status->kind != entry_kind::directory)
    return failure(errc::not_found, path + ": is not a directory");
  auto read = read_manifest_of(storage, path);
  if (!read) return failure(std::move(read.error()));
  if (read->content.step != name.step)
    return failure(errc::corrupt, path + ": was renamed: its manifest is of step " +
                                      std::to_string(read->content.step));
  return bundle{name, std::move(read->content), read->checksum};
}

result<bundle> open_bundle_at(disk& storage, const std::string& path) {
  const auto status = storage.stat(path);
  if (!status) return failure(status.error());
  if (status->kind != entry_kind::directory)
    return failure(errc::not_found, path + ": is not a directory; name that of a bundle");
  auto read = read_manifest_of(storage, path);
  if (!read) return failure(std::move(read.error()));
  const std::size_t slash = path.find_last_not_of('/');
  const std::string trimmed = path.substr(0, slash == std::string::npos ? 0 : slash + 1);
  const auto name = parse_bundle_name(trimmed.substr(trimmed.rfind('/') + 1));
  return bundle{name.value_or(bundle_name{read->content.step, 0}), std::move(read->content),
                read->checksum};
}

result<std::vector<std::byte>> read_bundle_file(disk& storage,
                                                const std::string& checkpoint_directory,
                                                const bundle& source, std::string_view path) {
  return read_listed_file(storage, join(checkpoint_directory, to_string(source.name)),
                          source.content, path);
}

result<std::vector<std::byte>> read_listed_file(disk& storage, const std::string& bundle_path,
                                                const manifest& content, std::string_view path) {
  const std::string full = join(bundle_path, path);
  const manifest_file* expected = content.find(path);
  if (expected == nullptr) return failure(errc::not_found, full + ": not in the bundle");
  auto bytes = read_file(storage, full, std::min(expected->bytes, whole_file_bytes_max));
  if (!bytes && bytes.error().code == errc::not_found)
    return failure(errc::corrupt, full + ": missing");
  if (!bytes && bytes.error().code == errc::exhausted) {
    // As long as it should be: then the memory is too small, and no other bundle helps.
    const auto status = storage.stat(full);
    if (status && status->bytes == expected->bytes) return bytes;
    return failure(errc::corrupt, full + ": longer than the manifest says");
  }
  if (!bytes) return bytes;
  if (bytes->size() != expected->bytes)
    return failure(errc::corrupt, full + ": has " + std::to_string(bytes->size()) +
                                      " bytes, and the manifest says " +
                                      std::to_string(expected->bytes));
  if (const checksum128 found = checksum_of(*bytes); found != expected->checksum)
    return failure(errc::corrupt, full + ": checksum " + to_string(found) +
                                      ", and the manifest says " + to_string(expected->checksum));
  return bytes;
}

std::vector<bundle_name> sharers_of(disk& storage, const std::string& bundle_path,
                                    std::string_view file) {
  std::vector<bundle_name> names;
  const auto status = storage.stat(join(bundle_path, file));
  const std::string directory = parent_of(bundle_path);
  const auto entries = storage.list(directory);
  if (!status || !entries) return names;
  for (const directory_entry& entry : *entries) {
    const std::string other = join(directory, entry.name);
    const auto name = parse_bundle_name(entry.name);
    if (other == bundle_path || !name) continue;
    const auto same = storage.stat(join(other, file));
    if (same && same->inode == status->inode) names.push_back(*name);
  }
  return names;
}

std::vector<bundle_problem> verify_bundle(disk& storage, const std::string& path) {
  const auto status = storage.stat(path);
  if (!status) return {{std::string(), status.error()}};
  auto read = read_manifest_of(storage, path);
  if (!read) return {{std::string(manifest_name), std::move(read.error())}};
  auto problems = verify_files(storage, path, read->content);
  for (bundle_problem& additional : additional_files(storage, path, read->content))
    problems.push_back(std::move(additional));
  return problems;
}

result<std::vector<std::string>> abandon_newer(disk& storage,
                                               const std::string& checkpoint_directory,
                                               const bundle_survey& survey, const bundle& chosen) {
  std::vector<bundle_name> newer;
  for (const broken_bundle& broken : survey.broken)
    if (is_newer(broken, chosen)) newer.push_back(broken.name);
  for (const bundle& readable : survey.readable)
    if (readable.content.epoch > chosen.content.epoch) newer.push_back(readable.name);

  std::vector<std::string> abandoned;
  for (const bundle_name name : newer) {
    auto aside = set_aside(storage, checkpoint_directory, abandoned_prefix, name);
    if (!aside) return failure(std::move(aside.error()));
    abandoned.push_back(std::move(*aside));
  }
  if (abandoned.empty()) return abandoned;
  if (auto synced = storage.sync_directory(checkpoint_directory); !synced)
    return failure(std::move(synced.error()));
  return abandoned;
}

result<std::size_t> remove_leftovers(disk& storage, const std::string& checkpoint_directory) {
  const auto entries = storage.list(checkpoint_directory);
  if (!entries && entries.error().code == errc::not_found) return 0;
  if (!entries) return failure(entries.error());
  std::size_t count = 0;
  for (const directory_entry& entry : *entries) {
    if (entry.kind != entry_kind::directory) continue;
    if (!parse_temporary_name(entry.name) && !entry.name.starts_with(retired_prefix)) continue;
    if (auto removed = remove_tree(storage, join(checkpoint_directory, entry.name)); !removed)
      return failure(std::move(removed.error()));
    ++count;
  }
  return count;
}

} // namespace weir::dataplane
