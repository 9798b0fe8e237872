/// Files through io_uring. One ring serves one file at a time, or one call: a pool hands them out,
/// so that no two threads meet in a ring. What the kernel may still read belongs to the ring, or
/// the call waits for it: no file leaves its ring before everything it queued was answered.
///
/// The kernel answers a queued request as a system call would: with bytes done (short writes are
/// written on), or a negative error number. EINTR, EAGAIN and ECANCELED (the thread that queued it
/// ended) mean that the same request is made again; for a write that is harmless, and a cancelled
/// sync has not begun. Any other error is final for the file.
#include "dataplane/uring_disk.hpp"

#include "dataplane/posix_disk.hpp"
#include "dataplane/posix_file.hpp"
#include "dataplane/settling_file.hpp"

#include <fcntl.h>
#include <liburing.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

namespace weir::dataplane {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{512} << 10;
constexpr std::size_t buffers_per_file = 8;
/// So many full buffers are collected before the first is queued: a file that is shorter is written
/// by plain calls, since waking a worker of the kernel takes longer than the write.
constexpr std::size_t buffers_first = 4;
constexpr unsigned ring_entries = 32;
/// Files that write at the same time; more write as posix files do.
constexpr std::size_t rings_max = 8;
constexpr std::size_t read_piece_bytes = std::size_t{256} << 10;
constexpr std::size_t reads_in_flight = 8;
constexpr std::size_t syncs_in_flight = 16;
/// A request that is only ever interrupted is given up.
constexpr int tries_max = 100;

static_assert(buffers_per_file + 4 <= ring_entries && syncs_in_flight <= ring_entries);

bool asks_again(int outcome) {
  return outcome == -EINTR || outcome == -EAGAIN || outcome == -ECANCELED;
}

/// What the kernel said about one request.
struct completion {
  std::uint64_t token = 0;
  int outcome = 0;
};

/// A buffer and where its bytes go.
struct write_slot {
  std::unique_ptr<std::byte[]> bytes;
  std::uint64_t offset = 0;
  std::size_t filled = 0;
  std::size_t done = 0;
  int tries = 0;
  bool taken = false; ///< Being filled, collected, or written.
};

/// A queue of requests, and the buffers of a writer. Used by one thread at a time.
class ring {
public:
  /// The error number if the kernel refuses.
  static std::unique_ptr<ring> make(int& number) {
    std::unique_ptr<ring> made(new ring);
    number = -::io_uring_queue_init(ring_entries, &made->queue_, 0);
    made->open_ = number == 0;
    return made->open_ ? std::move(made) : nullptr;
  }
  ~ring() {
    if (open_) ::io_uring_queue_exit(&queue_);
  }
  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  /// The place for a request. @pre fewer than `ring_entries` are in flight
  [[nodiscard]] io_uring_sqe& request() {
    io_uring_sqe* entry = ::io_uring_get_sqe(&queue_);
    ensure(entry != nullptr, "a ring has room for what one file may queue");
    ++in_flight_;
    return *entry;
  }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }

  /// Hands all requests to the kernel, which may be short of memory for the moment: then they go
  /// with the next call. Only `next` has to get through.
  void submit() { std::ignore = ::io_uring_submit(&queue_); }

  /// The next answer. @pre something is in flight
  [[nodiscard]] completion next() {
    ensure(in_flight_ > 0, "an answer is awaited for a request");
    io_uring_cqe* entry = nullptr;
    while (::io_uring_peek_cqe(&queue_, &entry) != 0) {
      const int waited = ::io_uring_submit_and_wait(&queue_, 1);
      ensure(waited >= 0 || asks_again(waited) || waited == -EBUSY, "a ring can be waited for");
    }
    const completion one{entry->user_data, entry->res};
    ::io_uring_cqe_seen(&queue_, entry);
    --in_flight_;
    return one;
  }

  std::array<write_slot, buffers_per_file> slots;

private:
  ring() = default;
  io_uring queue_{};
  bool open_ = false;
  std::size_t in_flight_ = 0;
};

class ring_pool {
public:
  /// Null if all are taken, or the kernel has no memory for another.
  std::unique_ptr<ring> borrow() {
    const std::lock_guard guard(mutex_);
    if (!idle_.empty()) {
      auto one = std::move(idle_.back());
      idle_.pop_back();
      return one;
    }
    int number = 0;
    auto made = made_ < rings_max ? ring::make(number) : nullptr;
    if (made) ++made_;
    return made;
  }
  void give_back(std::unique_ptr<ring> one) {
    ensure(one->in_flight() == 0, "a ring is given back with nothing in flight");
    const std::lock_guard guard(mutex_);
    idle_.push_back(std::move(one));
  }

private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<ring>> idle_;
  std::size_t made_ = 0;
};

/// A ring for the time of one call.
class borrowed_ring {
public:
  explicit borrowed_ring(ring_pool& pool) : pool_(pool), one_(pool.borrow()) {}
  ~borrowed_ring() {
    if (one_) pool_.give_back(std::move(one_));
  }
  borrowed_ring(const borrowed_ring&) = delete;
  borrowed_ring& operator=(const borrowed_ring&) = delete;
  [[nodiscard]] ring* get() const { return one_.get(); }

private:
  ring_pool& pool_;
  std::unique_ptr<ring> one_;
};

// ---------------------------------------------------------------------------- writing

/// A created file: appends go through a ring, everything else waits for them first.
class queued_file final : public settling_file {
public:
  queued_file(std::unique_ptr<posix_file> under, std::shared_ptr<ring_pool> pool,
              std::shared_ptr<deferred_syncs> syncs)
      : settling_file(std::move(under), std::move(syncs)), pool_(std::move(pool)) {}
  ~queued_file() override { settle(); }

  result<void> append(std::span<const std::byte> bytes) override {
    if (syncing_) std::ignore = sync(); // Its failure is kept.
    if (failed_) return outcome();
    if (!ring_) ring_ = pool_->borrow();
    if (!ring_) {
      keep(under_->write_at(end_, bytes));
      if (!failed_) end_ += bytes.size();
      return outcome();
    }
    while (!bytes.empty() && !failed_) {
      write_slot& slot = open_slot();
      const std::size_t count = std::min(bytes.size(), buffer_bytes - slot.filled);
      std::memcpy(slot.bytes.get() + slot.filled, bytes.data(), count);
      slot.filled += count;
      end_ += count;
      bytes = bytes.subspan(count);
      if (slot.filled == buffer_bytes) close_open_slot();
    }
    return outcome();
  }

  void start_sync() override {
    if (!ring_ || failed_ || syncing_) return;
    queue_sync();
    ring_->submit();
  }

  result<void> sync() override {
    // Also of a file that has no ring.
    cut();
    if (ring_ && !queueing_ && !syncing_) settle(); // Short: no ring is needed.
    if (failed_) return outcome();
    if (!ring_) {
      keep(under_->sync());
      return outcome();
    }
    start_sync();
    while (!failed_ && syncing_) {
      drain();
      if (failed_ || synced_) break;
      queue_sync(); // It was cancelled, or overtook the rest of a short write.
    }
    syncing_ = false;
    settle();
    return outcome();
  }

private:
  static constexpr std::uint64_t sync_token = buffers_per_file;
  static constexpr std::uint64_t hint_token = buffers_per_file + 1;

  [[nodiscard]] std::uint64_t end() const override { return end_; }

  /// Writes what is left and waits for all of it; gives the ring back.
  void settle() override {
    cut();
    if (!ring_) return;
    if (open_ != none && !failed_) close_open_slot();
    if (!queueing_ && !failed_) write_collected();
    drain();
    queueing_ = syncing_ = false;
    collected_ = 0;
    for (write_slot& slot : ring_->slots) // The buffers stay for the next file.
      slot.taken = false;
    open_ = none;
    pool_->give_back(std::move(ring_));
  }

  /// What was collected, by plain calls.
  void write_collected() {
    for (std::size_t at = 0; at < collected_ && !failed_; ++at) {
      const write_slot& slot = ring_->slots[at];
      keep(under_->write_at(slot.offset, {slot.bytes.get(), slot.filled}));
    }
  }

  /// From now on buffers are written as they are full.
  void start_queueing() {
    queueing_ = true;
    const std::size_t count = std::exchange(collected_, 0);
    for (std::size_t at = 0; at < count; ++at)
      queue_write(at);
    ring_->submit();
  }

  /// The buffer that is being filled; waits for one if all are being written.
  write_slot& open_slot() {
    while (open_ == none) {
      const auto free = std::ranges::find(ring_->slots, false, &write_slot::taken);
      if (free == ring_->slots.end()) {
        take(ring_->next());
        continue;
      }
      free->taken = true;
      open_ = static_cast<std::size_t>(free - ring_->slots.begin());
      if (!free->bytes) free->bytes = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
      free->offset = end_;
      free->filled = free->done = 0;
      free->tries = 0;
    }
    return ring_->slots[open_];
  }

  /// The buffer that was filled is queued, or collected while the file is short.
  void close_open_slot() {
    const std::size_t at = std::exchange(open_, none);
    if (!queueing_) {
      ensure(at == collected_, "buffers are collected in their order");
      if (++collected_ == buffers_first) start_queueing();
      return;
    }
    queue_write(at);
    if (!hint_queued_) queue_hint();
    ring_->submit();
  }

  /// Has the disk begin with what was written: all but what may stand in buffers.
  void queue_hint() {
    constexpr std::uint64_t unwritten_max = buffers_per_file * buffer_bytes;
    if (end_ < hinted_ + write_behind_bytes + unwritten_max) return;
    const std::uint64_t bytes = end_ - unwritten_max - hinted_;
    hint_queued_ = true;
    io_uring_sqe& hint = ring_->request();
    ::io_uring_prep_sync_file_range(&hint, under_->number(), static_cast<unsigned>(bytes), hinted_,
                                    SYNC_FILE_RANGE_WRITE);
    ::io_uring_sqe_set_data64(&hint, hint_token);
    hinted_ += bytes;
  }

  io_uring_sqe& queue_write(std::size_t at) {
    const write_slot& slot = ring_->slots[at];
    io_uring_sqe& write = ring_->request();
    ::io_uring_prep_write(&write, under_->number(), slot.bytes.get() + slot.done,
                          static_cast<unsigned>(slot.filled - slot.done), slot.offset + slot.done);
    ::io_uring_sqe_set_data64(&write, at);
    return write;
  }

  /// The last bytes and, linked to them, the sync; both after all that was queued before.
  void queue_sync() {
    cut();
    if (!queueing_) start_queueing();
    bool linked = false;
    if (open_ != none && ring_->slots[open_].filled > 0) {
      io_uring_sqe& last = queue_write(open_);
      last.flags |= IOSQE_IO_DRAIN | IOSQE_IO_LINK;
      linked = true;
    }
    open_ = none;
    io_uring_sqe& sync = ring_->request();
    ::io_uring_prep_fsync(&sync, under_->number(), 0);
    ::io_uring_sqe_set_data64(&sync, sync_token);
    if (!linked) sync.flags |= IOSQE_IO_DRAIN;
    syncing_ = true;
    synced_ = false;
    overtaken_ = false;
  }

  void drain() {
    while (ring_->in_flight() > 0)
      take(ring_->next());
  }

  void take(completion one) {
    if (one.token == hint_token) { // Says nothing about what is durable.
      hint_queued_ = false;
      return;
    }
    if (one.token == sync_token) {
      if (one.outcome == 0)
        synced_ = !overtaken_;
      else if (!asks_again(one.outcome) || ++sync_tries_ == tries_max)
        keep(system_failure(-one.outcome, under_->path(), "sync"));
      return;
    }
    write_slot& slot = ring_->slots[one.token];
    if (one.outcome == 0)
      keep(failure(errc::io_failed, under_->path() + ": cannot write: the system took no bytes"));
    else if (one.outcome > 0)
      slot.done += static_cast<std::size_t>(one.outcome);
    else if (!asks_again(one.outcome) || ++slot.tries == tries_max)
      keep(system_failure(-one.outcome, under_->path(), "write"));
    slot.taken = !failed_ && slot.done < slot.filled;
    if (!slot.taken) return;
    if (syncing_) overtaken_ = true, synced_ = false;
    queue_write(one.token);
    ring_->submit();
  }

  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::shared_ptr<ring_pool> pool_;
  std::unique_ptr<ring> ring_;
  std::uint64_t end_ = 0; ///< Where the next append goes.
  std::size_t open_ = none;
  std::uint64_t hinted_ = 0;  ///< Up to here the disk was told to begin.
  bool hint_queued_ = false;  ///< One at a time: a busy disk would collect them.
  std::size_t collected_ = 0; ///< Full buffers that are not queued, the first of the ring's.
  bool queueing_ = false;
  int sync_tries_ = 0;
  bool syncing_ = false;
  bool synced_ = false;
  bool overtaken_ = false; ///< A write went on after the sync was queued: it has to be repeated.
};

// ---------------------------------------------------------------------------- reading

/// A file that is read: long reads are made of pieces that are in flight together.
class parallel_read_file final : public file {
public:
  parallel_read_file(std::unique_ptr<posix_file> under, std::shared_ptr<ring_pool> pool)
      : under_(std::move(under)), pool_(std::move(pool)) {}

  result<void> append(std::span<const std::byte> bytes) override { return under_->append(bytes); }
  result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return under_->write_at(offset, bytes);
  }
  result<std::uint64_t> size() override { return under_->size(); }
  result<void> sync() override { return under_->sync(); }
  result<void> close() override { return under_->close(); }
  result<std::shared_ptr<const std::byte>> map(std::uint64_t bytes) override {
    return under_->map(bytes);
  }

  result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> target) override {
    if (target.size() < 2 * read_piece_bytes) return under_->read_at(offset, target);
    const borrowed_ring borrowed(*pool_);
    if (borrowed.get() == nullptr) return under_->read_at(offset, target);
    return read_pieces(*borrowed.get(), offset, target);
  }

private:
  /// Pieces are whole or the file ends in them: whatever came short is read again the plain way,
  /// which also says what is wrong.
  result<std::size_t> read_pieces(ring& one, std::uint64_t offset, std::span<std::byte> target) {
    const std::size_t count = (target.size() + read_piece_bytes - 1) / read_piece_bytes;
    std::size_t first_short = count;
    std::size_t queued = 0;
    while (queued < count || one.in_flight() > 0) {
      for (; queued < count && one.in_flight() < reads_in_flight; ++queued) {
        const auto piece = piece_of(target, queued);
        io_uring_sqe& read = one.request();
        ::io_uring_prep_read(&read, under_->number(), piece.data(),
                             static_cast<unsigned>(piece.size()),
                             offset + queued * read_piece_bytes);
        ::io_uring_sqe_set_data64(&read, queued);
      }
      one.submit();
      const completion done = one.next();
      if (done.outcome != static_cast<int>(piece_of(target, done.token).size()))
        first_short = std::min<std::size_t>(first_short, done.token);
    }
    if (first_short == count) return target.size();
    const std::size_t whole = first_short * read_piece_bytes;
    const auto rest = under_->read_at(offset + whole, target.subspan(whole));
    return rest ? result<std::size_t>(whole + *rest) : failure(rest.error());
  }

  static std::span<std::byte> piece_of(std::span<std::byte> target, std::size_t at) {
    const auto rest = target.subspan(at * read_piece_bytes);
    return rest.first(std::min(rest.size(), read_piece_bytes));
  }

  std::unique_ptr<posix_file> under_;
  std::shared_ptr<ring_pool> pool_;
};

// ---------------------------------------------------------------------------- the disk

class uring_disk final : public disk {
public:
  result<std::unique_ptr<file>> create(const std::string& path) override {
    return queue(create_posix_file(path));
  }
  result<std::unique_ptr<file>> create_over(const std::string& spare,
                                            const std::string& path) override {
    return queue(reuse_posix_file(spare, path));
  }
  bool writes_over(const std::string& directory) override { return names_->writes_over(directory); }
  /// Written at once: the logs count on a kill losing nothing.
  result<std::unique_ptr<file>> open_or_create(const std::string& path) override {
    return names_->open_or_create(path);
  }
  result<std::unique_ptr<file>> open(const std::string& path) override {
    auto opened = open_posix_file(path);
    if (!opened) return failure(std::move(opened.error()));
    return std::make_unique<parallel_read_file>(std::move(*opened), pool_);
  }
  result<void> sync_directory(const std::string& path) override {
    return names_->sync_directory(path);
  }

  /// All at once: the journal writes them together.
  result<void> sync_directories(std::span<const std::string> paths) override {
    const borrowed_ring borrowed(*pool_);
    if (borrowed.get() == nullptr || paths.size() < 2) return disk::sync_directories(paths);
    while (!paths.empty()) {
      const auto some = paths.first(std::min(paths.size(), syncs_in_flight));
      if (auto done = sync_some(*borrowed.get(), some); !done) return done;
      paths = paths.subspan(some.size());
    }
    return {};
  }

  result<void> sync_tree(const std::string& directory) override {
    return syncs_->sync_tree(*this, directory);
  }

  result<void> rename(const std::string& source, const std::string& target) override {
    return names_->rename(source, target);
  }
  result<void> rename_exclusive(const std::string& source, const std::string& target) override {
    return names_->rename_exclusive(source, target);
  }
  result<void> link(const std::string& source, const std::string& target) override {
    return names_->link(source, target);
  }
  result<void> make_symlink(const std::string& destination, const std::string& path) override {
    return names_->make_symlink(destination, path);
  }
  result<std::string> read_symlink(const std::string& path) override {
    return names_->read_symlink(path);
  }
  result<void> unlink(const std::string& path) override {
    auto removed = names_->unlink(path);
    syncs_->forget(path);
    return removed;
  }
  result<void> make_directory(const std::string& path) override {
    return names_->make_directory(path);
  }
  result<void> remove_directory(const std::string& path) override {
    return names_->remove_directory(path);
  }
  result<std::vector<directory_entry>> list(const std::string& path) override {
    return names_->list(path);
  }
  result<file_status> stat(const std::string& path) override { return names_->stat(path); }
  result<std::unique_ptr<file_lock>> lock(const std::string& path) override {
    return names_->lock(path);
  }

private:
  result<std::unique_ptr<file>> queue(result<std::unique_ptr<posix_file>> made) {
    if (!made) return failure(std::move(made.error()));
    return std::make_unique<queued_file>(std::move(*made), pool_, syncs_);
  }

  static result<void> sync_some(ring& one, std::span<const std::string> paths) {
    std::vector<descriptor> opened;
    for (const std::string& path : paths) {
      auto folder = open_descriptor(path, O_RDONLY | O_DIRECTORY, "open the directory");
      if (!folder) return failure(std::move(folder.error()));
      opened.push_back(std::move(*folder));
    }
    const auto queue = [&](std::size_t at) {
      io_uring_sqe& sync = one.request();
      ::io_uring_prep_fsync(&sync, opened[at].number(), 0);
      ::io_uring_sqe_set_data64(&sync, at);
    };
    for (std::size_t at = 0; at < opened.size(); ++at)
      queue(at);
    int tries = 0;
    std::optional<error> failed;
    while (one.in_flight() > 0) {
      const completion done = one.next();
      if (done.outcome == 0) continue;
      if (asks_again(done.outcome) && ++tries < tries_max)
        queue(done.token);
      else if (!failed)
        failed = system_failure(-done.outcome, paths[done.token], "sync the directory").value();
    }
    if (failed) return failure(std::move(*failed));
    return {};
  }

  std::shared_ptr<deferred_syncs> syncs_ = std::make_shared<deferred_syncs>();
  std::unique_ptr<disk> names_ = make_posix_disk();
  std::shared_ptr<ring_pool> pool_ = std::make_shared<ring_pool>();
};

/// Why a ring could not be made.
std::string refusal(int number) {
  const std::string begin = "io_uring: the kernel does not allow it (";
  if (number == ENOSYS) return begin + "it has none, or a container hides it)";
  if (number == EPERM || number == EACCES)
    return begin + "kernel.io_uring_disabled is set, or a container's seccomp filter refuses it)";
  if (number == ENOMEM)
    return begin + "no memory may be locked for it; raise the limit of `ulimit -l`)";
  return begin + std::string(std::strerror(number)) + ")";
}

} // namespace

result<std::unique_ptr<disk>> make_uring_disk() {
  int number = 0;
  if (ring::make(number) == nullptr) return failure(errc::unsupported, refusal(number));
  const std::unique_ptr<io_uring_probe, void (*)(io_uring_probe*)> known(::io_uring_get_probe(),
                                                                         &::io_uring_free_probe);
  for (const int operation :
       {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC, IORING_OP_SYNC_FILE_RANGE})
    if (!known || ::io_uring_opcode_supported(known.get(), operation) == 0)
      return failure(errc::unsupported,
                     "io_uring: this kernel's lacks what is needed; Linux 5.6 and later have it");
  return std::make_unique<uring_disk>();
}

} // namespace weir::dataplane
