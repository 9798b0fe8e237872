/// The tree of a bundle that was retired, kept to write the next one into.
///
/// A file system looks long for new inodes and blocks and lets go of old ones slowly (ext4 has the
/// disk discard them, one request a file, and passes over inodes that were freed a moment ago): for
/// a bundle of a few megabytes after every step that is more than its bytes. So the folders of one
/// retired bundle stay, as `.retired-spare`, and in them its files, under names that no file of a
/// bundle has:
///
///   step_5/data_plane/segments/17.seg   ->   .retired-spare/data_plane/segments/.spare-0.seg
///
/// The next bundle begins by renaming the tree, and each of its files takes over the spare one of
/// its kind (`disk::create_over`): a file of the same folder whose name differs by numbers at most.
/// What is left is removed before the bundle is published.
///
/// Only what a retirement has left is used, whose new name is durable: power loss finds a name that
/// nobody believes on whatever mixture of former and later bytes. A file with a second name is
/// another bundle's, too, and never a spare one. A bundle that failed is removed with all of its
/// files, so that nothing which a sync has failed for is written again. A bundle that wants a file
/// where the tree has a folder fails, and takes the tree along.
#pragma once

#include "dataplane/disk.hpp"
#include "messages/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::dataplane {

/// What is kept at most, files that are too large left out: there bytes count, not names.
inline constexpr std::uint64_t spare_bytes_max = std::uint64_t{64} << 20;

/// The spare file that `path` may take over: "a/.spare-0.seg" for "a/17.seg".
[[nodiscard]] std::string spare_path(std::string_view path);
/// Of a name within a folder.
[[nodiscard]] bool is_spare(std::string_view name);

/// Makes the tree at `retired` the spare one of its checkpoint directory, less what is of no use;
/// removes it where there is one already. @pre no bundle's name leads to it, also after power loss
[[nodiscard]] result<void> keep_or_remove_tree(disk& storage,
                                               const std::string& checkpoint_directory,
                                               const std::string& retired);

/// Gives the spare tree the name `directory`. Volatile. False: there is none, or it cannot be used.
[[nodiscard]] bool take_spare_tree(disk& storage, const std::string& checkpoint_directory,
                                   const std::string& directory);

/// Removes the spare tree, at the end of a run. A missing one is no error.
[[nodiscard]] result<void> remove_spare_tree(disk& storage,
                                             const std::string& checkpoint_directory);

} // namespace weir::dataplane
