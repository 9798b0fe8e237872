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

private:
  [[nodiscard]] detail::address find_address(const std::string& name) const;

  shared_name name_;
  detail::address self_;
  std::shared_ptr<detail::graph_core> graph_;
  bool is_origin_ = false;
};

} // namespace weir
