/// The small history that the crash tests play: bundles A, B, ... in one checkpoint directory.
#pragma once

#include "dataplane/bundle_reader.hpp"
#include "dataplane/bundle_writer.hpp"
#include "dataplane/disk.hpp"
#include "dataplane/section_file.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace weir::test {

inline const std::string crash_directory = "/run/checkpoints";

/// The n-th cut of incarnation 1.
inline epoch_id crash_epoch(std::uint64_t number) {
  return {1, 1, number};
}

inline result<void> write_sections(dataplane::bundle_writer& writer, const std::string& content,
                                   const std::optional<dataplane::bundle>& link_source) {
  for (const char* path : {"data_plane/index.fb", "training_info.json"}) {
    auto section = writer.create(path);
    if (!section) return failure(section.error());
    // In two writes, so that one may be torn off the other.
    for (const std::string& part : {content, std::string(path)})
      if (auto done = section->append(std::as_bytes(std::span(part))); !done) return done;
    auto finished = section->finish();
    if (!finished) return failure(finished.error());
    if (auto added = writer.add(std::move(*finished)); !added) return added;
  }
  if (link_source) return writer.link_file(*link_source, "data_plane/segments/1.seg");
  auto section = writer.create("data_plane/segments/1.seg");
  if (!section) return failure(section.error());
  const std::string segment = "segment of " + content;
  if (auto done = section->append(std::as_bytes(std::span(segment))); !done) return done;
  auto finished = section->finish();
  if (!finished) return failure(finished.error());
  return writer.add(std::move(*finished));
}

/// What a process that is current says of the bundle of one step.
inline dataplane::publication publication_of(std::uint64_t step, std::string run_id = {}) {
  dataplane::publication what;
  what.run_id = std::move(run_id);
  what.step = step;
  what.still_current = [] { return result<void>(); };
  return what;
}

/// Writes and publishes the bundle of one step; its cut has the step's number.
inline result<dataplane::publish_outcome>
publish_step(dataplane::disk& storage, std::uint64_t step,
             const std::optional<dataplane::bundle>& link_source = std::nullopt) {
  auto writer = dataplane::bundle_writer::begin(storage, crash_directory, crash_epoch(step));
  if (!writer) return failure(writer.error());
  const std::string content = "content of step " + std::to_string(step);
  if (auto written = write_sections(*writer, content, link_source); !written) {
    writer->discard();
    return failure(written.error());
  }
  return writer->publish(publication_of(step, "crash"));
}

/// What `restored_step` returns without any bundle; the history begins at step 1.
inline constexpr std::uint64_t no_bundle = 0;

/// The step that a restore would begin from.
inline result<std::uint64_t> restored_step(dataplane::disk& storage) {
  const auto survey = dataplane::survey_bundles(storage, crash_directory);
  if (!survey) return failure(survey.error());
  auto choice = dataplane::newest_valid_bundle(storage, crash_directory, *survey);
  if (!choice) return failure(choice.error());
  if (!*choice) return no_bundle;
  return (*choice)->chosen.content.step;
}

} // namespace weir::test
