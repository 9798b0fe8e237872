/// A graph of actors as Graphviz text: who is who, and who asks whom. Knows neither actors nor
/// messages.
#pragma once

#include <string>
#include <vector>

namespace weir::detail {

struct drawn_actor {
  std::string name;
  bool is_origin = false;
  bool is_owner = false;
  std::vector<std::string> asks;    ///< Names; one that comes again is drawn once.
  std::vector<std::string> barrier; ///< Over whom this actor leads a barrier.
  std::string supervisor;           ///< Who restarts it; empty: nobody.
};

/// An owner is a cylinder, since it holds state that lasts; an origin is blue; everybody else a
/// rounded box. Asking is a solid edge, a barrier a dashed one, restarting a dotted one. In the
/// order given: the same graph gives the same text.
[[nodiscard]] std::string to_dot(std::vector<drawn_actor> actors);

} // namespace weir::detail
