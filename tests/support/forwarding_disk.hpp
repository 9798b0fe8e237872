/// A disk that passes every call on, for tests that change what one of them does.
#pragma once

#include "dataplane/disk.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weir::test {

class forwarding_file : public dataplane::file {
public:
  explicit forwarding_file(std::unique_ptr<dataplane::file> inner) : inner_(std::move(inner)) {}

  result<void> append(std::span<const std::byte> bytes) override { return inner_->append(bytes); }
  result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return inner_->write_at(offset, bytes);
  }
  result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> target) override {
    return inner_->read_at(offset, target);
  }
  result<std::uint64_t> size() override { return inner_->size(); }
  result<void> sync() override { return inner_->sync(); }
  result<void> close() override { return inner_->close(); }
  result<std::shared_ptr<const std::byte>> map(std::uint64_t bytes) override {
    return inner_->map(bytes);
  }

private:
  std::unique_ptr<dataplane::file> inner_;
};

class forwarding_disk : public dataplane::disk {
public:
  using file_result = result<std::unique_ptr<dataplane::file>>;
  explicit forwarding_disk(dataplane::disk& inner) : inner_(inner) {}

  file_result create(const std::string& path) override { return inner_.create(path); }
  file_result open_or_create(const std::string& path) override {
    return inner_.open_or_create(path);
  }
  file_result open(const std::string& path) override { return inner_.open(path); }
  result<void> sync_directory(const std::string& path) override {
    return inner_.sync_directory(path);
  }
  result<void> rename(const std::string& source, const std::string& target) override {
    return inner_.rename(source, target);
  }
  result<void> rename_exclusive(const std::string& source, const std::string& target) override {
    return inner_.rename_exclusive(source, target);
  }
  result<void> link(const std::string& source, const std::string& target) override {
    return inner_.link(source, target);
  }
  result<void> make_symlink(const std::string& destination, const std::string& path) override {
    return inner_.make_symlink(destination, path);
  }
  result<std::string> read_symlink(const std::string& path) override {
    return inner_.read_symlink(path);
  }
  result<void> unlink(const std::string& path) override { return inner_.unlink(path); }
  result<void> make_directory(const std::string& path) override {
    return inner_.make_directory(path);
  }
  result<void> remove_directory(const std::string& path) override {
    return inner_.remove_directory(path);
  }
  result<std::vector<dataplane::directory_entry>> list(const std::string& path) override {
    return inner_.list(path);
  }
  result<dataplane::file_status> stat(const std::string& path) override {
    return inner_.stat(path);
  }
  result<std::unique_ptr<dataplane::file_lock>> lock(const std::string& path) override {
    return inner_.lock(path);
  }

private:
  dataplane::disk& inner_;
};

} // namespace weir::test
