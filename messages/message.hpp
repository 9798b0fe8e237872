/// A typed view over a payload, and the two ways to make one.
#pragma once

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

namespace detail {
template <declared_message T, class Build>
[[nodiscard]] message<T> built(std::size_t size_hint, Build& fill,
                               std::vector<attachment>&& attachments) {
  payload_memory memory;
  flatbuffers::FlatBufferBuilder builder(size_hint, &memory);
  const flatbuffers::Offset<T> root = fill(builder);
  builder.Finish(root);
  return message<T>(payload_of(message_traits<T>::type, builder, std::move(attachments)));
}
} // namespace detail

/// Builds a message with a function that is given the builder and returns the root's offset. The
/// buffer is reserved once, at `size_hint` bytes. For messages by the million: it is compiled as
/// one piece, since the dozen small calls of a builder cost as much as its work.
template <declared_message T, class Build>
[[nodiscard, gnu::flatten]] message<T> build(std::size_t size_hint, Build&& fill,
                                             std::vector<attachment> attachments = {}) {
  return detail::built<T>(size_hint, fill, std::move(attachments));
}

/// Packs an object-API struct, for example `pack(CommitGroupT)`: for paths that run once a group.
template <class Native>
[[nodiscard]] auto pack(const Native& value, std::vector<attachment> attachments = {}) {
  using table = typename Native::TableType;
  const auto fill = [&value](flatbuffers::FlatBufferBuilder& builder) {
    return table::Pack(builder, &value);
  };
  return detail::built<table>(256, fill, std::move(attachments));
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
