/// A disk in memory that knows what power loss may do to it, and that fails on request.
///
/// It keeps, beside what a program sees, every change that no sync has made durable yet: writes of
/// a file, and changes of names of a directory (one rename is one change). After power loss
///   - any subset of the name changes of each directory may be on the disk, applied in order;
///   - of the writes of each file any prefix may be, the last of them torn at a sector, or all but
///     one; and the file may have its later length with zeros in place of bytes;
///   - syncing a file says nothing about its name, and syncing a directory nothing about its files.
/// That is more than any one file system does (ext4, XFS and Btrfs each allow a part of it).
/// Loss of the process keeps all that a call returned success for: the page cache survives, and
/// stays as volatile as it was.
///
/// After a sync that failed, what it should have synced may be there or not for ever: a later sync
/// makes only later changes durable (Linux drops the dirty mark together with the error).
#pragma once

#include "dataplane/disk.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weir::test {

/// What happens to the calls of a crash_disk; counted from 0 over all that can fail.
struct planned_fault {
  std::uint64_t first_call = std::numeric_limits<std::uint64_t>::max();
  errc code = errc::io_failed;
  /// Only that one call, or that one and all later ones which need space.
  bool persistent = false;
};

class crash_disk final : public dataplane::disk {
public:
  crash_disk();

  // ------------------------------------------------------------------ the disk
  result<std::unique_ptr<dataplane::file>> create(const std::string& path) override;
  /// Written in place: power loss may leave former bytes among the new ones, and behind them.
  result<std::unique_ptr<dataplane::file>> create_over(const std::string& spare,
                                                       const std::string& path) override;
  bool writes_over(const std::string&) override { return true; }
  result<std::unique_ptr<dataplane::file>> open_or_create(const std::string& path) override;
  result<std::unique_ptr<dataplane::file>> open(const std::string& path) override;
  result<void> sync_directory(const std::string& path) override;
  /// What was closed for the tree is synced here, one file after the other, and not before.
  result<void> sync_tree(const std::string& directory) override;
  /// Within one directory only: nothing of ours moves a name to another.
  result<void> rename(const std::string& source, const std::string& target) override;
  result<void> rename_exclusive(const std::string& source, const std::string& target) override;
  result<void> link(const std::string& source, const std::string& target) override;
  result<void> make_symlink(const std::string& destination, const std::string& path) override;
  result<std::string> read_symlink(const std::string& path) override;
  result<void> unlink(const std::string& path) override;
  result<void> make_directory(const std::string& path) override;
  result<void> remove_directory(const std::string& path) override;
  result<std::vector<dataplane::directory_entry>> list(const std::string& path) override;
  result<dataplane::file_status> stat(const std::string& path) override;
  result<std::unique_ptr<dataplane::file_lock>> lock(const std::string& path) override;

  // ------------------------------------------------------------------ faults
  void plan(planned_fault fault) { fault_ = fault; }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  /// Syncs of files and directories for which this holds return success and do nothing: what a
  /// protocol does that leaves them out.
  void ignore_syncs(std::function<bool(const std::string&)> ignored) {
    ignored_sync_ = std::move(ignored);
  }
  /// Hard links are `unsupported`, as on a file system without them.
  void refuse_links() { links_refused_ = true; }

  // ------------------------------------------------------------------ crashes
  /// The process dies within that call: a write leaves a part, every other call nothing; it and
  /// all later ones fail, and change nothing any more.
  void die_at(std::uint64_t call) { dies_at_ = call; }
  /// The same, between two calls.
  void die() { dies_at_ = calls_++; }
  [[nodiscard]] bool dead() const { return calls_ > dies_at_; }
  /// The next process finds this disk. @pre nobody holds a file or a lock of the former one
  void lose_process();
  /// The same after power loss: one of the states that it may leave, chosen by `seed`.
  void lose_power(std::uint64_t seed);

  // ------------------------------------------------------------------ states of power loss
  /// Called after each call that changed anything or synced.
  void after_change(std::function<void()> observer) { observer_ = std::move(observer); }
  /// Visits the states that power loss now may leave, each as a fresh disk without any fault; all
  /// of them, or `states_max` chosen by `seed` with the two extremes. Returns how many there are.
  std::uint64_t for_each_crash_state(std::uint64_t states_max, std::uint64_t seed,
                                     const std::function<void(crash_disk&)>& visit) const;
  /// Equal for equal trees: names, kinds, contents.
  [[nodiscard]] std::string fingerprint() const;
  /// Flips one bit of a file, behind the back of everyone.
  void damage(const std::string& path, std::size_t byte, unsigned bit);

private:
  friend class crash_file;
  using inode_number = std::uint64_t;
  enum class standing : std::uint8_t { pending, durable, doomed };

  struct content_change {
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
    bool ends_file = false; ///< Cut to `offset`.
    standing state = standing::pending;
  };
  struct name_change {
    std::vector<std::pair<std::string, std::optional<inode_number>>> edits;
    standing state = standing::pending;
  };
  struct node {
    dataplane::entry_kind kind = dataplane::entry_kind::file;
    std::string destination;
    /// What the program sees.
    std::vector<std::byte> content;
    std::map<std::string, inode_number> names;
    /// What is durable, and what was changed since.
    std::vector<std::byte> base_content;
    std::map<std::string, inode_number> base_names;
    std::vector<content_change> content_changes;
    std::vector<name_change> name_changes;
  };
  using node_map = std::map<inode_number, node>;

  [[nodiscard]] result<inode_number> find(const std::string& path) const;
  /// The directory and the last part of a path.
  [[nodiscard]] result<std::pair<inode_number, std::string>> find_parent(const std::string& path);
  [[nodiscard]] result<void> add_name(const std::string& path, inode_number target);
  [[nodiscard]] inode_number make_node(dataplane::entry_kind kind);
  void change_names(inode_number directory, name_change change);
  [[nodiscard]] std::uint64_t links_of(inode_number inode) const;
  [[nodiscard]] result<void> begin_call(const std::string& path, bool needs_space);
  [[nodiscard]] bool takes_part() const { return !dead() || calls_ == dies_at_ + 1; }
  void notify() const;

  /// What power loss did to a file: the first `arrived` volatile writes are there, and of the next
  /// one what `tail` says.
  enum class torn_tail : std::uint8_t { nothing, part, part_and_zeros, zeros, later_writes };
  struct file_loss {
    std::size_t arrived = 0;
    torn_tail tail = torn_tail::nothing;
  };
  static std::vector<std::byte> content_after(const node& from, file_loss loss);
  static std::vector<std::vector<std::byte>> possible_contents(const node& from);
  static std::map<std::string, inode_number>
  names_after(const node& from, const std::function<bool(std::size_t change)>& arrived);

  /// Replaces what a node of a crash state has by its choice-th possibility; returns their number.
  static std::uint64_t possibilities(const node& from);
  static node chosen(const node& from, std::uint64_t choice);
  static node settled(const node& from, std::vector<std::byte> content,
                      std::map<std::string, inode_number> names);
  void forget_unreachable();
  [[nodiscard]] std::set<inode_number> reachable() const;
  void describe(inode_number at, std::string& text) const;

  node_map nodes_;
  inode_number next_inode_ = 2;
  std::set<inode_number> locked_;
  std::uint64_t calls_ = 0;
  planned_fault fault_;
  std::uint64_t dies_at_ = std::numeric_limits<std::uint64_t>::max();
  bool links_refused_ = false;
  std::function<bool(const std::string&)> ignored_sync_;
  std::function<void()> observer_;
};

} // namespace weir::test
