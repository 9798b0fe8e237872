// The sampler of dispatch_order.hpp as a shared object:
//
//     g++ -std=c++20 -shared -fPIC -I. examples/sampler/dispatch_order.cpp -o libdispatch_order.so
//
// and in the configuration:
//
//     async_rl.sampler: {name: custom, target: ./libdispatch_order.so:dispatch_order}
#include "examples/sampler/dispatch_order.hpp"

extern "C" const weir::sampler_plugin dispatch_order; // Exported under its plain name.
const weir::sampler_plugin dispatch_order(&example::make_dispatch_order);
