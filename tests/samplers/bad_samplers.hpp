/// Samplers that do one thing wrong each, and are dispatch_order otherwise: for a shared object,
/// and to be registered by name.
#pragma once

#include "examples/sampler/dispatch_order.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace weir::test {

/// Version from which on the wrong answers come: a run begins well.
inline constexpr std::uint64_t first_bad_version = 2;

class bad_sampler : public sampler_policy {
public:
  bad_sampler(std::string_view name, const sampler_arguments& given)
      : name_(name), order_(given.window) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::uint64_t window() const override { return order_.window(); }
  [[nodiscard]] bool gated() const override { return true; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return true; }
  [[nodiscard]] result<bool> admits(std::int64_t dispatched, weight_version live) const override {
    return order_.admits(dispatched, live);
  }
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const override {
    return order_.select(slots, wanted);
  }

private:
  std::string_view name_;
  example::dispatch_order order_;
};

/// select throws.
class throwing final : public bad_sampler {
public:
  explicit throwing(const sampler_arguments& given) : bad_sampler("throwing", given) {}
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const override {
    if (wanted.version.value < first_bad_version) return bad_sampler::select(slots, wanted);
    const std::vector<group_id> none;
    return std::vector<group_id>{none.at(7)};
  }
};

/// select names groups that nobody knows.
class inventing final : public bad_sampler {
public:
  explicit inventing(const sampler_arguments& given) : bad_sampler("inventing", given) {}
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const override {
    auto chosen = bad_sampler::select(slots, wanted);
    if (chosen && !chosen->empty() && wanted.version.value >= first_bad_version)
      chosen->back() = group_id(4711);
    return chosen;
  }
};

/// Its gate shuts, and never opens again.
class shutting final : public bad_sampler {
public:
  explicit shutting(const sampler_arguments& given) : bad_sampler("shutting", given) {}
  [[nodiscard]] result<bool> admits(std::int64_t dispatched, weight_version live) const override {
    if (live.value >= first_bad_version) return false;
    return bad_sampler::admits(dispatched, live);
  }
};

/// Takes nothing, so that its gate, which waits for a step, stays shut.
class refusing final : public bad_sampler {
public:
  explicit refusing(const sampler_arguments& given) : bad_sampler("refusing", given) {}
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const override {
    if (wanted.version.value >= first_bad_version) return std::vector<group_id>();
    return bad_sampler::select(slots, wanted);
  }
};

/// Declares room for one step, and lets in what comes.
class crowding final : public bad_sampler {
public:
  explicit crowding(const sampler_arguments& given) : bad_sampler("crowding", given) {}
  [[nodiscard]] std::uint64_t buffer_groups(std::uint64_t groups_per_step) const override {
    return groups_per_step;
  }
  [[nodiscard]] result<bool> admits(std::int64_t, weight_version) const override { return true; }
};

/// Its gate is as slow to open as if it counted the questions; a policy may not.
class hesitating final : public bad_sampler {
public:
  explicit hesitating(const sampler_arguments& given) : bad_sampler("hesitating", given) {}
  [[nodiscard]] result<bool> admits(std::int64_t dispatched, weight_version live) const override {
    constexpr std::uint64_t asked_often = 60;
    if (live.value >= first_bad_version && asked_.fetch_add(1) < asked_often) return false;
    return bad_sampler::admits(dispatched, live);
  }

private:
  mutable std::atomic<std::uint64_t> asked_ = 0;
};

/// Does not come back from select.
class sleeping final : public bad_sampler {
public:
  explicit sleeping(const sampler_arguments& given) : bad_sampler("sleeping", given) {}
  [[nodiscard]] result<std::vector<group_id>> select(const slot_view& slots,
                                                     const selection& wanted) const override {
    if (wanted.version.value >= first_bad_version) never_.wait(false);
    return bad_sampler::select(slots, wanted);
  }

private:
  std::atomic<bool> never_ = false;
};

template <class Sampler>
std::shared_ptr<const sampler_policy> make_bad(const sampler_arguments& given) {
  return std::make_shared<const Sampler>(given);
}

} // namespace weir::test
