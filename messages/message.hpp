/// A typed view over a payload, and the two ways to make one.
#pragma once

#include "messages/block_pool.hpp"
#include "messages/catalogue_generated.hpp"
#include "messages/frame.hpp"

#include <string>
#include <utility>

namespace weir {

/// A `T` read in place from a shared payload. Cheap to copy and to move; never empty once made, and
/// the fields live as long as any message over the same payload does.
template <declared_message T>
class message {
public:
  using table_type = T;

  /// Views a payload. @pre its type is T's (checked), and its bytes were verified or built here.
  explicit message(payload_ptr content) : content_(std::move(content)) {
    ensure(content_ != nullptr && content_->type() == message_traits<T>::type,
           "a payload is viewed as the type that it has");
    root_ = flatbuffers::GetRoot<T>(content_->bytes().data());
  }

  [[nodiscard]] const T* operator->() const noexcept { return root_; }
  [[nodiscard]] const T& operator*() const noexcept { return *root_; }
  [[nodiscard]] const payload_ptr& content() const& noexcept { return content_; }
  /// Gives the payload away, for a last use that need not count another reference.
  [[nodiscard]] payload_ptr content() && noexcept { return std::move(content_); }
  [[nodiscard]] std::span<const attachment> attachments() const noexcept {
    return content_->attachments();
  }

private:
  payload_ptr content_;
  const T* root_ = nullptr;
};

/// Builds a message with a function that is given the builder and returns the root's offset. The
/// buffer is reserved once, at `size_hint` bytes.
template <declared_message T, class Build>
[[nodiscard]] message<T> build(std::size_t size_hint, Build&& fill,
                               std::vector<attachment> attachments = {}) {
  flatbuffers::FlatBufferBuilder builder(size_hint, &detail::payload_memory());
  const flatbuffers::Offset<T> root = std::forward<Build>(fill)(builder);
  builder.Finish(root);
  return message<T>(std::allocate_shared<const payload>(block_allocator<payload>(),
                                                        message_traits<T>::type, builder.Release(),
                                                        std::move(attachments)));
}

/// Packs an object-API struct, for example `pack(CommitGroupT)`: for paths that run once a group.
template <class Native>
[[nodiscard]] auto pack(const Native& value, std::vector<attachment> attachments = {}) {
  using table = typename Native::TableType;
  const auto fill = [&value](flatbuffers::FlatBufferBuilder& builder) {
    return table::Pack(builder, &value);
  };
  return build<table>(256, fill, std::move(attachments));
}

/// A string field; an absent one, which is also how an empty one travels, is empty.
[[nodiscard]] inline std::string text_of(const flatbuffers::String* field) {
  return field != nullptr ? field->str() : std::string();
}

/// Reads a payload as a `T`, or says what else it is.
template <declared_message T>
[[nodiscard]] result<message<T>> view_as(payload_ptr content) {
  if (content->type() != message_traits<T>::type)
    return failure(errc::conflict, "expected " + std::string(message_traits<T>::name) + ", got " +
                                       std::string(message_name(content->type())));
  return message<T>(std::move(content));
}

} // namespace weir
