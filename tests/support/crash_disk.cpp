#include "tests/support/crash_disk.hpp"

#include "dataplane/checksum.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace weir::test {

using dataplane::directory_entry;
using dataplane::entry_kind;
using dataplane::file_status;

namespace {

constexpr std::uint64_t root = 1;
constexpr std::size_t sector_bytes = 512;

tl::unexpected<error> refuse(errc code, const std::string& path, const std::string& reason) {
  return failure(code, path + ": " + reason);
}

void apply(std::vector<std::byte>& content, std::uint64_t offset,
           std::span<const std::byte> bytes) {
  if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size());
  std::ranges::copy(bytes, content.begin() + static_cast<std::ptrdiff_t>(offset));
}

/// A write, or the end of a file that is shorter than the former one in its place.
template <class Change>
void apply_change(std::vector<std::byte>& content, const Change& change) {
  apply(content, change.offset, change.bytes);
  if (change.ends_file) content.resize(change.offset);
}

template <class Names, class Edits>
void apply_edits(Names& names, const Edits& edits) {
  for (const auto& [name, target] : edits) {
    if (target)
      names[name] = *target;
    else
      names.erase(name);
  }
}

/// A repeatable stream of numbers (splitmix64).
std::uint64_t next_number(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

} // namespace

class crash_file final : public dataplane::file {
public:
  crash_file(crash_disk& owner, std::uint64_t inode, std::string path, std::uint64_t position,
             bool over_former = false)
      : owner_(&owner), inode_(inode), path_(std::move(path)), position_(position),
        over_former_(over_former) {}

  result<void> append(std::span<const std::byte> bytes) override {
    auto written = write_at(position_, bytes);
    if (written) position_ += bytes.size();
    return written;
  }

  result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    auto begun = owner_->begin_call(path_, true);
    if (!begun) bytes = bytes.first(bytes.size() / 2); // A full disk takes a part first, and
    if (!owner_->takes_part()) return begun;           // so does one whose process dies.
    if (!bytes.empty()) {
      auto& node = owner_->nodes_.at(inode_);
      apply(node.content, offset, bytes);
      node.content_changes.push_back({offset, {bytes.begin(), bytes.end()}});
    }
    owner_->notify();
    return begun;
  }

  result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> target) override {
    if (auto begun = owner_->begin_call(path_, false); !begun)
      return failure(std::move(begun.error()));
    const auto& content = owner_->nodes_.at(inode_).content;
    if (offset >= content.size()) return 0;
    const std::size_t count = std::min(target.size(), content.size() - offset);
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), count, target.begin());
    return count;
  }

  result<std::uint64_t> size() override { return owner_->nodes_.at(inode_).content.size(); }

  result<void> sync() override {
    if (auto cut = end_file(); !cut) return cut;
    auto begun = owner_->begin_call(path_, true);
    if (owner_->dead() || (owner_->ignored_sync_ && owner_->ignored_sync_(path_))) return begun;
    using standing = crash_disk::standing;
    auto& node = owner_->nodes_.at(inode_);
    for (auto& change : node.content_changes)
      if (change.state == standing::pending)
        change.state = begun ? standing::durable : standing::doomed;
    auto& changes = node.content_changes;
    while (!changes.empty() && changes.front().state == standing::durable) {
      apply_change(node.base_content, changes.front());
      changes.erase(changes.begin());
    }
    owner_->notify();
    return begun;
  }

  result<void> close() override {
    if (auto cut = end_file(); !cut) return cut;
    return owner_->begin_call(path_, false);
  }
  result<void> close_for_tree() override { return close(); }

private:
  /// Takes away what the former file has left behind the last write, once.
  result<void> end_file() {
    if (!std::exchange(over_former_, false)) return {};
    auto begun = owner_->begin_call(path_, false);
    if (!begun) return begun;
    auto& node = owner_->nodes_.at(inode_);
    node.content_changes.push_back({node.content.size(), {}, true});
    owner_->notify();
    return begun;
  }

  crash_disk* owner_;
  std::uint64_t inode_;
  std::string path_;
  std::uint64_t position_;
  bool over_former_;
};

namespace {

class crash_lock final : public dataplane::file_lock {
public:
  crash_lock(std::set<std::uint64_t>& locked, std::uint64_t inode,
             std::unique_ptr<dataplane::file> content)
      : locked_(&locked), inode_(inode), content_(std::move(content)) {}
  ~crash_lock() override { locked_->erase(inode_); }
  crash_lock(const crash_lock&) = delete;
  crash_lock& operator=(const crash_lock&) = delete;

  result<void> describe(std::string_view content) override {
    return content_->write_at(0, std::as_bytes(std::span(content)));
  }

private:
  std::set<std::uint64_t>* locked_;
  std::uint64_t inode_;
  std::unique_ptr<dataplane::file> content_;
};

} // namespace

crash_disk::crash_disk() {
  nodes_[root].kind = entry_kind::directory;
}

// ---------------------------------------------------------------------------- names

result<crash_disk::inode_number> crash_disk::find(const std::string& path) const {
  inode_number at = root;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty()) continue;
    const auto& names = nodes_.at(at).names;
    const auto found = names.find(part);
    if (found == names.end()) return refuse(errc::not_found, path, "no such file");
    at = found->second;
  }
  return at;
}

result<std::pair<crash_disk::inode_number, std::string>>
crash_disk::find_parent(const std::string& path) {
  const auto directory = find(dataplane::parent_of(path));
  if (!directory) return failure(directory.error());
  if (nodes_.at(*directory).kind != entry_kind::directory)
    return refuse(errc::io_failed, path, "not a directory");
  return std::pair(*directory, path.substr(path.rfind('/') + 1));
}

crash_disk::inode_number crash_disk::make_node(entry_kind kind) {
  const inode_number inode = next_inode_++;
  nodes_[inode].kind = kind;
  return inode;
}

void crash_disk::change_names(inode_number directory, name_change change) {
  node& changed = nodes_.at(directory);
  apply_edits(changed.names, change.edits);
  changed.name_changes.push_back(std::move(change));
}

result<void> crash_disk::add_name(const std::string& path, inode_number target) {
  const auto parent = find_parent(path);
  if (!parent) return failure(parent.error());
  const auto& [directory, name] = *parent;
  if (nodes_.at(directory).names.contains(name))
    return refuse(errc::already_exists, path, "exists");
  change_names(directory, {{{name, target}}});
  notify();
  return {};
}

// ---------------------------------------------------------------------------- calls

result<void> crash_disk::begin_call(const std::string& path, bool needs_space) {
  const std::uint64_t call = calls_++;
  if (dead()) return refuse(errc::io_failed, path, "the process died");
  const bool strikes =
      call == fault_.first_call || (fault_.persistent && needs_space && call > fault_.first_call);
  if (!strikes) return {};
  return refuse(fault_.code, path, "cannot: planned fault of call " + std::to_string(call));
}

void crash_disk::notify() const {
  if (observer_) observer_();
}

result<std::unique_ptr<dataplane::file>> crash_disk::create(const std::string& path) {
  if (auto begun = begin_call(path, true); !begun) return failure(std::move(begun.error()));
  const inode_number inode = make_node(entry_kind::file);
  if (auto added = add_name(path, inode); !added) return failure(std::move(added.error()));
  return std::make_unique<crash_file>(*this, inode, path, 0);
}

result<std::unique_ptr<dataplane::file>> crash_disk::create_over(const std::string& spare,
                                                                 const std::string& path) {
  const auto found = find(spare);
  if (!found || nodes_.at(*found).kind != entry_kind::file || links_of(*found) != 1)
    return create(path);
  if (auto renamed = rename_exclusive(spare, path); !renamed)
    return failure(std::move(renamed.error()));
  nodes_.at(*found).content.clear();
  return std::make_unique<crash_file>(*this, *found, path, 0, true);
}

std::uint64_t crash_disk::links_of(inode_number inode) const {
  std::uint64_t links = 0;
  for (const auto& [number, folder] : nodes_)
    for (const auto& [name, target] : folder.names)
      links += target == inode ? 1 : 0;
  return links;
}

result<std::unique_ptr<dataplane::file>> crash_disk::open_or_create(const std::string& path) {
  const auto found = find(path);
  if (!found) return create(path);
  if (auto begun = begin_call(path, false); !begun) return failure(std::move(begun.error()));
  return std::make_unique<crash_file>(*this, *found, path, nodes_.at(*found).content.size());
}

result<std::unique_ptr<dataplane::file>> crash_disk::open(const std::string& path) {
  if (auto begun = begin_call(path, false); !begun) return failure(std::move(begun.error()));
  const auto found = find(path);
  if (!found) return failure(found.error());
  if (nodes_.at(*found).kind != entry_kind::file)
    return refuse(errc::io_failed, path, "not a regular file");
  return std::make_unique<crash_file>(*this, *found, path, 0);
}

result<void> crash_disk::sync_directory(const std::string& path) {
  auto begun = begin_call(path, true);
  const auto found = find(path);
  if (!found) return failure(found.error());
  if (dead() || (ignored_sync_ && ignored_sync_(path))) return begun;
  node& synced = nodes_.at(*found);
  for (name_change& change : synced.name_changes)
    if (change.state == standing::pending)
      change.state = begun ? standing::durable : standing::doomed;
  auto& changes = synced.name_changes;
  while (!changes.empty() && changes.front().state == standing::durable) {
    apply_edits(synced.base_names, changes.front().edits);
    changes.erase(changes.begin());
  }
  notify();
  return begun;
}

result<void> crash_disk::sync_tree(const std::string& directory) {
  const auto entries = list(directory);
  if (!entries) return failure(entries.error());
  for (const dataplane::directory_entry& entry : *entries) {
    const std::string path = dataplane::join(directory, entry.name);
    if (entry.kind == dataplane::entry_kind::directory) {
      if (auto synced = sync_tree(path); !synced) return synced;
    } else {
      auto opened = open(path);
      if (!opened) return failure(opened.error());
      if (auto synced = (*opened)->sync(); !synced) return synced;
    }
  }
  return sync_directory(directory);
}

result<void> crash_disk::rename(const std::string& source, const std::string& target) {
  if (auto begun = begin_call(source, true); !begun) return begun;
  const auto from = find_parent(source);
  const auto to = find_parent(target);
  if (!from) return failure(from.error());
  if (!to) return failure(to.error());
  if (from->first != to->first)
    return refuse(errc::unsupported, source, "only renamed within its directory");
  const auto& names = nodes_.at(from->first).names;
  const auto moved = names.find(from->second);
  if (moved == names.end()) return refuse(errc::not_found, source, "no such file");
  change_names(from->first, {{{from->second, std::nullopt}, {to->second, moved->second}}});
  notify();
  return {};
}

result<void> crash_disk::rename_exclusive(const std::string& source, const std::string& target) {
  if (find(target)) return refuse(errc::already_exists, source, "target exists: " + target);
  return rename(source, target);
}

result<void> crash_disk::link(const std::string& source, const std::string& target) {
  if (auto begun = begin_call(source, true); !begun) return begun;
  if (links_refused_) return refuse(errc::unsupported, source, "links are refused");
  const auto found = find(source);
  if (!found) return failure(found.error());
  return add_name(target, *found);
}

result<void> crash_disk::make_symlink(const std::string& destination, const std::string& path) {
  if (auto begun = begin_call(path, true); !begun) return begun;
  const inode_number inode = make_node(entry_kind::symlink);
  nodes_.at(inode).destination = destination;
  return add_name(path, inode);
}

result<std::string> crash_disk::read_symlink(const std::string& path) {
  const auto found = find(path);
  if (!found) return failure(found.error());
  return nodes_.at(*found).destination;
}

result<void> crash_disk::unlink(const std::string& path) {
  if (auto begun = begin_call(path, false); !begun) return begun;
  const auto found = find(path);
  if (!found) return failure(found.error());
  const auto parent = find_parent(path);
  if (!parent) return failure(parent.error());
  change_names(parent->first, {{{parent->second, std::nullopt}}});
  notify();
  return {};
}

result<void> crash_disk::make_directory(const std::string& path) {
  if (auto begun = begin_call(path, true); !begun) return begun;
  return add_name(path, make_node(entry_kind::directory));
}

result<void> crash_disk::remove_directory(const std::string& path) {
  const auto found = find(path);
  if (found && !nodes_.at(*found).names.empty())
    return refuse(errc::already_exists, path, "not empty");
  return unlink(path);
}

result<std::vector<directory_entry>> crash_disk::list(const std::string& path) {
  if (auto begun = begin_call(path, false); !begun) return failure(std::move(begun.error()));
  const auto found = find(path);
  if (!found) return failure(found.error());
  std::vector<directory_entry> entries;
  for (const auto& [name, inode] : nodes_.at(*found).names)
    entries.push_back({name, nodes_.at(inode).kind});
  return entries;
}

result<file_status> crash_disk::stat(const std::string& path) {
  if (auto begun = begin_call(path, false); !begun) return failure(std::move(begun.error()));
  const auto found = find(path);
  if (!found) return failure(found.error());
  const node& named = nodes_.at(*found);
  return file_status{named.kind, named.content.size(), *found, links_of(*found)};
}

result<std::unique_ptr<dataplane::file_lock>> crash_disk::lock(const std::string& path) {
  auto opened = open_or_create(path);
  if (!opened) return failure(std::move(opened.error()));
  const inode_number inode = *find(path);
  if (!locked_.insert(inode).second) return refuse(errc::already_exists, path, "locked");
  return std::make_unique<crash_lock>(locked_, inode, std::move(*opened));
}

// ---------------------------------------------------------------------------- power loss

std::vector<std::byte> crash_disk::content_after(const node& from, file_loss loss) {
  const auto& changes = from.content_changes;
  auto content = from.base_content;
  for (std::size_t at = 0; at < changes.size(); ++at) {
    const bool overtook = at > loss.arrived && loss.tail == torn_tail::later_writes;
    if (at < loss.arrived || overtook || changes[at].state == standing::durable)
      apply_change(content, changes[at]);
  }
  if (loss.arrived >= changes.size()) return content;
  const content_change& torn = changes[loss.arrived];
  if (torn.state == standing::durable) return content;
  const std::size_t length = std::max<std::size_t>(content.size(), torn.offset + torn.bytes.size());
  const std::size_t part = torn.bytes.size() > sector_bytes ? sector_bytes : torn.bytes.size() / 2;
  if (loss.tail == torn_tail::part || loss.tail == torn_tail::part_and_zeros)
    apply(content, torn.offset, std::span(torn.bytes).first(part));
  if (loss.tail == torn_tail::zeros || loss.tail == torn_tail::part_and_zeros)
    content.resize(length);
  return content;
}

/// The first possibility is that nothing volatile arrived, the last that everything did.
std::vector<std::vector<std::byte>> crash_disk::possible_contents(const node& from) {
  std::vector<std::vector<std::byte>> contents;
  const auto remember = [&](file_loss loss) {
    auto content = content_after(from, loss);
    if (std::ranges::find(contents, content) == contents.end())
      contents.push_back(std::move(content));
  };
  for (std::size_t count = 0; count < from.content_changes.size(); ++count)
    for (const auto tail : {torn_tail::nothing, torn_tail::part, torn_tail::part_and_zeros,
                            torn_tail::zeros, torn_tail::later_writes})
      remember({count, tail});
  remember({from.content_changes.size(), torn_tail::nothing});
  return contents;
}

std::map<std::string, crash_disk::inode_number>
crash_disk::names_after(const node& from, const std::function<bool(std::size_t change)>& arrived) {
  auto names = from.base_names;
  for (std::size_t at = 0; at < from.name_changes.size(); ++at) {
    const name_change& change = from.name_changes[at];
    if (change.state == standing::durable || arrived(at)) apply_edits(names, change.edits);
  }
  return names;
}

std::uint64_t crash_disk::possibilities(const node& from) {
  if (from.kind == entry_kind::file) return possible_contents(from).size();
  const auto open = std::ranges::count_if(from.name_changes, [](const name_change& change) {
    return change.state != standing::durable;
  });
  ensure(open < 63, "a directory of a crash test has few volatile changes");
  return std::uint64_t{1} << open;
}

crash_disk::node crash_disk::settled(const node& from, std::vector<std::byte> content,
                                     std::map<std::string, inode_number> names) {
  node after;
  after.kind = from.kind;
  after.destination = from.destination;
  after.content = content;
  after.base_content = std::move(content);
  after.names = names;
  after.base_names = std::move(names);
  return after;
}

crash_disk::node crash_disk::chosen(const node& from, std::uint64_t choice) {
  if (from.kind == entry_kind::file) return settled(from, possible_contents(from).at(choice), {});
  const auto next_bit = [&choice](std::size_t) {
    const bool arrived = (choice & 1U) != 0;
    choice >>= 1;
    return arrived;
  };
  return settled(from, {}, names_after(from, next_bit));
}

std::set<crash_disk::inode_number> crash_disk::reachable() const {
  std::set<inode_number> seen;
  std::vector<inode_number> open{root};
  while (!open.empty()) {
    const inode_number at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    const node& visited = nodes_.at(at);
    for (const auto& [name, inode] : visited.base_names)
      open.push_back(inode);
    for (const name_change& change : visited.name_changes)
      for (const auto& [name, inode] : change.edits)
        if (inode) open.push_back(*inode);
  }
  return seen;
}

std::uint64_t
crash_disk::for_each_crash_state(std::uint64_t states_max, std::uint64_t seed,
                                 const std::function<void(crash_disk&)>& visit) const {
  std::vector<std::pair<inode_number, std::uint64_t>> radix;
  std::uint64_t states = 1;
  for (const inode_number inode : reachable()) {
    radix.emplace_back(inode, possibilities(nodes_.at(inode)));
    if (__builtin_mul_overflow(states, radix.back().second, &states))
      states = std::numeric_limits<std::uint64_t>::max();
  }
  const bool all = states <= states_max;
  const std::uint64_t turns = all ? states : states_max;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    crash_disk state;
    state.next_inode_ = next_inode_;
    std::uint64_t index = turn;
    for (const auto& [inode, count] : radix) {
      std::uint64_t choice = index % count;
      index /= count;
      // Chosen at random, but for the extremes: nothing arrived, everything did.
      if (!all) choice = turn == 0 ? 0 : turn + 1 == turns ? count - 1 : next_number(seed) % count;
      state.nodes_[inode] = chosen(nodes_.at(inode), choice);
    }
    visit(state);
  }
  return states;
}

void crash_disk::lose_process() {
  dies_at_ = std::numeric_limits<std::uint64_t>::max();
  ensure(locked_.empty(), "the lock of a dead process is gone");
  forget_unreachable();
}

void crash_disk::lose_power(std::uint64_t seed) {
  lose_process();
  // Half of the times everything is decided for each change alone, else nothing or all is lost.
  const std::uint64_t mood = next_number(seed) % 4;
  for (auto& [inode, lost] : nodes_) {
    if (lost.kind == entry_kind::file) {
      const std::size_t writes = lost.content_changes.size();
      file_loss loss;
      loss.arrived = mood == 0 ? 0 : mood == 1 ? writes : next_number(seed) % (writes + 1);
      if (mood > 1) loss.tail = static_cast<torn_tail>(next_number(seed) % 5);
      lost = settled(lost, content_after(lost, loss), {});
    } else {
      const auto arrived = [&](std::size_t) {
        return mood == 1 || (mood > 1 && next_number(seed) % 2 == 0);
      };
      lost = settled(lost, {}, names_after(lost, arrived));
    }
  }
  forget_unreachable();
}

void crash_disk::forget_unreachable() {
  const std::set<inode_number> kept = reachable();
  std::erase_if(nodes_, [&kept](const auto& entry) { return !kept.contains(entry.first); });
}

void crash_disk::describe(inode_number at, std::string& text) const {
  const node& described = nodes_.at(at);
  if (described.kind == entry_kind::file)
    text += to_string(dataplane::checksum_of(described.content));
  text += described.destination + "{";
  for (const auto& [name, inode] : described.names) {
    text += name + "=";
    describe(inode, text);
    text += ";";
  }
  text += "}";
}

std::string crash_disk::fingerprint() const {
  std::string text;
  describe(root, text);
  return text;
}

void crash_disk::damage(const std::string& path, std::size_t byte, unsigned bit) {
  node& damaged = nodes_.at(*find(path));
  damaged.content.at(byte) ^= static_cast<std::byte>(1U << bit);
  if (byte < damaged.base_content.size())
    damaged.base_content[byte] ^= static_cast<std::byte>(1U << bit);
}

} // namespace weir::test
