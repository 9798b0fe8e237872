/// What an actor is told about itself when it is made.
#pragma once

#include "actors/runtime/handle.hpp"
#include "messages/ids.hpp"

#include <memory>
#include <optional>

namespace weir {

class world;

namespace detail {
class actor_access;
class graph_core;
} // namespace detail

namespace detail {
/// Who is told that a life has ended, and of which member of its group; nobody by default.
struct supervision_link {
  address supervisor;
  std::size_t member = 0;
};
} // namespace detail

/// Passed by the graph to the constructor of an actor; copyable.
class context {
public:
  context(shared_name name, detail::address self, std::shared_ptr<detail::graph_core> graph)
      : name_(std::move(name)), self_(std::move(self)), graph_(std::move(graph)) {}

  [[nodiscard]] const std::string& name() const noexcept { return *name_; }
  [[nodiscard]] const shared_name& shared() const noexcept { return name_; }
  [[nodiscard]] const detail::address& self() const noexcept { return self_; }
  [[nodiscard]] const std::shared_ptr<detail::graph_core>& graph() const noexcept { return graph_; }
  [[nodiscard]] world& env() const noexcept;
  [[nodiscard]] incarnation life() const noexcept;

  /// Another actor of the graph, as one that answers `Protocol`; empty when there is none of this
  /// name. In a constructor it must have been added before: else the graph does not start.
  template <class Protocol>
  [[nodiscard]] handle<Protocol> find(const std::string& name) const {
    return handle<Protocol>(find_address(name));
  }
  /// Whether this actor starts mutations and has a gate.
  [[nodiscard]] bool is_origin() const noexcept { return is_origin_; }
  void set_origin(bool is_origin) noexcept { is_origin_ = is_origin; }
  /// Whether this actor is restarted in place when it fails.
  [[nodiscard]] bool is_supervised() const noexcept { return static_cast<bool>(link_.supervisor); }
  [[nodiscard]] const detail::supervision_link& supervision() const noexcept { return link_; }
  void set_supervision(detail::supervision_link link) noexcept { link_ = std::move(link); }

private:
  [[nodiscard]] detail::address find_address(const std::string& name) const;

  shared_name name_;
  detail::address self_;
  std::shared_ptr<detail::graph_core> graph_;
  bool is_origin_ = false;
  detail::supervision_link link_;
};

} // namespace weir
