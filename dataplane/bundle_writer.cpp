#include "dataplane/bundle_writer.hpp"

#include "dataplane/set_aside.hpp"
#include "dataplane/spare_tree.hpp"
#include "messages/rule.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr int name_attempts_max = 16;

/// The name after the last one that this step has: step_12, then step_12.1, ...
result<bundle_name> next_free_name(disk& storage, const std::string& directory,
                                   std::uint64_t step) {
  const auto entries = storage.list(directory);
  if (!entries) return failure(entries.error());
  bundle_name next{step, 0};
  for (const directory_entry& entry : *entries) {
    const auto name = parse_bundle_name(entry.name);
    if (name && name->step == step && *name >= next) next.repetition = name->repetition + 1;
  }
  return next;
}

} // namespace

bundle_writer::bundle_writer(disk& storage, std::string checkpoint_directory, epoch_id epoch)
    : storage_(&storage), checkpoint_directory_(std::move(checkpoint_directory)),
      directory_(join(checkpoint_directory_, temporary_name(epoch))), epoch_(epoch) {}

result<bundle_writer> bundle_writer::begin(disk& storage, std::string checkpoint_directory,
                                           epoch_id epoch) {
  bundle_writer writer(storage, std::move(checkpoint_directory), epoch);
  if (take_spare_tree(storage, writer.checkpoint_directory_, writer.directory_)) return writer;
  if (auto made = storage.make_directory(writer.directory_); !made)
    return failure(std::move(made.error()));
  return writer;
}

// ---------------------------------------------------------------------------- sections

result<section_file> bundle_writer::create(std::string path) {
  ensure(!done_, "a section is begun before its bundle is published");
  return section_file::create(*storage_, directory_, std::move(path), epoch_);
}

result<void> bundle_writer::add(finished_section section) {
  ensure(!done_, "a section is added before its bundle is published");
  const std::string path = section.file.path;
  if (section.epoch != epoch_)
    return failure(errc::conflict, path + ": belongs to the cut " + to_string(section.epoch) +
                                       ", and this bundle to " + to_string(epoch_));
  if (!is_bundle_path(path))
    return failure(errc::invalid_argument, path + ": cannot be the name of a bundle's file");
  if (!files_.emplace(path, std::move(section.file)).second)
    return failure(errc::already_exists, path + ": is in this bundle already");
  return {};
}

result<void> bundle_writer::link_file(const bundle& source, const std::string& path) {
  ensure(!done_, "a file is linked before its bundle is published");
  const manifest_file* expected = source.content.find(path);
  const std::string source_directory = join(checkpoint_directory_, to_string(source.name));
  if (expected == nullptr)
    return failure(errc::not_found, join(source_directory, path) + ": not in its manifest");
  if (std::ranges::find(pinned_, source.name) == pinned_.end()) pinned_.push_back(source.name);
  if (files_.contains(path))
    return failure(errc::already_exists, path + ": is in this bundle already");

  auto given = link_section(*storage_, join(source_directory, path), directory_, *expected, epoch_);
  if (!given) return given;
  files_.emplace(path, *expected);
  linked_.emplace(path, source.name);
  return {};
}

result<std::size_t> bundle_writer::link_folder(const bundle& source, std::string_view folder) {
  const std::string prefix = std::string(folder) + "/";
  std::size_t count = 0;
  for (const manifest_file& file : source.content.files) {
    if (!file.path.starts_with(prefix)) continue;
    if (auto linked = link_file(source, file.path); !linked)
      return failure(std::move(linked.error()));
    ++count;
  }
  return count;
}

// ---------------------------------------------------------------------------- publishing

result<publish_outcome> bundle_writer::publish(publication what) {
  ensure(!done_, "a bundle is published once");
  ensure(what.still_current != nullptr, "a publication asks whether its process is still current");
  auto outcome = publish_in_order(what);
  if (!outcome) discard();
  done_ = true;
  return outcome;
}

result<publish_outcome> bundle_writer::publish_in_order(publication& what) {
  auto written = complete_tree(what); // 1 to 3
  if (!written) return failure(std::move(written.error()));
  if (auto current = what.still_current(); !current) return failure(std::move(current.error()));
  const auto name = rename_to_free_name(what.step); // 4
  if (!name) return failure(name.error());
  if (auto synced = sync_name(*name); !synced) // 5: published
    return failure(std::move(synced.error()));

  written->name = *name;
  publish_outcome outcome{std::move(*written), std::nullopt};
  if (auto pointed = point_latest(*name); !pointed) // 6
    outcome.pointer_failure = std::move(pointed.error());
  return outcome;
}

/// Checks the sections, adds MANIFEST, and makes all of it durable.
result<bundle> bundle_writer::complete_tree(publication& what) {
  if (auto complete = check_sections(); !complete) return failure(std::move(complete.error()));
  const bool manifest_synced = enforced(rule::directory_synced_after_manifest);
  if (!manifest_synced) // What the rule is there to see.
    if (auto synced = storage_->sync_tree(directory_); !synced)
      return failure(std::move(synced.error()));
  auto written = write_manifest(what);
  if (!written) return written;
  if (auto removed = remove_spare(); !removed) return failure(std::move(removed.error()));
  if (manifest_synced)
    if (auto synced = storage_->sync_tree(directory_); !synced)
      return failure(std::move(synced.error()));
  return written;
}

/// Every file that was added is there and of this epoch, and nothing else is: a section whose
/// writer failed or has not finished is a file that nobody added.
result<void> bundle_writer::check_sections() {
  std::size_t found = 0;
  std::vector<std::string> folders{directory_};
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    const auto entries = storage_->list(folder);
    if (!entries) return failure(entries.error());
    for (const directory_entry& entry : *entries) {
      const std::string path = join(folder, entry.name);
      const std::string section = path.substr(directory_.size() + 1);
      if (entry.kind == entry_kind::directory) {
        folders.push_back(path);
        if (!has_sections(section)) spare_.push_back({path, entry.kind});
      } else if (is_spare(entry.name)) {
        spare_.push_back({path, entry.kind});
      } else if (files_.contains(section)) {
        ++found;
      } else {
        return failure(errc::conflict, path + ": was begun and not finished");
      }
    }
  }
  for (const auto& [path, file] : files_)
    if (auto good = check_section(file); !good) return good;
  ensure(found == files_.size(), "every section is listed once");
  return {};
}

/// Whether a section lies below the folder.
bool bundle_writer::has_sections(const std::string& folder) const {
  const std::string prefix = folder + "/";
  const auto first = files_.lower_bound(prefix);
  return first != files_.end() && first->first.starts_with(prefix);
}

/// Removes what was found to be of no use in the tree that this bundle began with, if MANIFEST has
/// not taken it since.
result<void> bundle_writer::remove_spare() {
  std::ranges::reverse(spare_); // What lies in a folder before it.
  for (const auto& [path, kind] : spare_) {
    auto removed =
        kind == entry_kind::directory ? storage_->remove_directory(path) : storage_->unlink(path);
    if (!removed && removed.error().code != errc::not_found) return removed;
  }
  return {};
}

result<void> bundle_writer::check_section(const manifest_file& expected) {
  const std::string path = join(directory_, expected.path);
  auto opened = storage_->open(path);
  if (!opened) return failure(std::move(opened.error()));
  const auto bytes = (*opened)->size();
  if (!bytes) return failure(bytes.error());
  if (*bytes != expected.bytes)
    return failure(errc::corrupt, path + ": has " + std::to_string(*bytes) + " bytes, and " +
                                      std::to_string(expected.bytes) + " were written");
  if (linked_.contains(expected.path)) return {};
  std::array<std::byte, section_header_bytes> start{};
  const auto count = (*opened)->read_at(0, start);
  if (!count) return failure(count.error());
  const auto read = std::span(start).first(*count);
  if (!has_section_header(read)) return {};
  const auto header = decode_section_header(read);
  if (!header) return failure(header.error().code, path + ": " + header.error().text);
  if (header->epoch != epoch_)
    return failure(errc::conflict, path + ": belongs to the cut " + to_string(header->epoch) +
                                       ", and this bundle to " + to_string(epoch_));
  return {};
}

result<bundle> bundle_writer::write_manifest(publication& what) {
  bundle writing;
  writing.content.run_id = std::move(what.run_id);
  writing.content.epoch = epoch_;
  writing.content.step = what.step;
  writing.content.parent = std::move(what.parent);
  writing.content.owners = std::move(what.owners);
  writing.content.metrics = std::move(what.metrics);
  for (const auto& [path, file] : files_)
    writing.content.files.push_back(file);
  const std::string path = join(directory_, manifest_name);
  const auto bytes = encode_manifest(writing.content);
  if (!bytes) return failure(bytes.error().code, path + ": " + bytes.error().text);
  auto opened = storage_->create_over(spare_path(path), path);
  if (!opened) return failure(std::move(opened.error()));
  if (auto appended = (*opened)->append(*bytes); !appended)
    return failure(std::move(appended.error()));
  if (auto closed = (*opened)->close_for_tree(); !closed) return failure(std::move(closed.error()));
  writing.manifest_checksum = checksum_of(*bytes);
  return writing;
}

result<bundle_name> bundle_writer::rename_to_free_name(std::uint64_t step) {
  for (int attempt = 0; attempt < name_attempts_max; ++attempt) {
    const auto name = next_free_name(*storage_, checkpoint_directory_, step);
    if (!name) return failure(name.error());
    const std::string target = join(checkpoint_directory_, to_string(*name));
    auto renamed = storage_->rename_exclusive(directory_, target);
    if (renamed) return *name;
    if (renamed.error().code != errc::already_exists) return failure(std::move(renamed.error()));
  }
  return failure(errc::conflict, directory_ + ": cannot be named: something else keeps taking " +
                                     "the names of step " + std::to_string(step));
}

/// Makes the name durable, or takes it back: a bundle of which that is unknown is never trusted.
result<void> bundle_writer::sync_name(bundle_name name) {
  auto synced = storage_->sync_directory(checkpoint_directory_);
  if (synced) return synced;
  const auto aside = set_aside(*storage_, checkpoint_directory_, retired_prefix, name);
  // Its files stay until the next restore: if the first rename is durable and this one is not,
  // power loss must find a whole bundle there, not half of one.
  if (!aside) synced.error().text += "; and cannot take the bundle back: " + aside.error().text;
  return synced;
}

result<void> bundle_writer::point_latest(bundle_name name) {
  const std::string path = join(checkpoint_directory_, latest_name);
  if (auto replaced = replace_symlink(*storage_, to_string(name), path); !replaced) return replaced;
  return storage_->sync_directory(checkpoint_directory_);
}

void bundle_writer::discard() {
  done_ = true;
  // What cannot be removed now is removed by the next restore.
  std::ignore = remove_tree(*storage_, directory_);
}

result<void> retire_bundles(disk& storage, const std::string& checkpoint_directory,
                            std::span<const bundle_name> names, retired_files files) {
  std::vector<std::string> retired;
  for (const bundle_name name : names) {
    auto aside = set_aside(storage, checkpoint_directory, retired_prefix, name);
    if (aside)
      retired.push_back(join(checkpoint_directory, *aside));
    else if (aside.error().code != errc::not_found)
      return failure(std::move(aside.error()));
  }
  if (retired.empty()) return {};
  if (auto synced = storage.sync_directory(checkpoint_directory); !synced) return synced;
  for (const std::string& path : retired) {
    auto done = files == retired_files::kept_for_next
                    ? keep_or_remove_tree(storage, checkpoint_directory, path)
                    : remove_tree(storage, path);
    if (!done) return done;
  }
  return {};
}

} // namespace weir::dataplane
