// What the tests load as shared objects: samplers that work, and symbols that are none.
#include "examples/sampler/dispatch_order.hpp"
#include "tests/samplers/bad_samplers.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace {

/// dispatch_order, whose buffer is never restored.
class shadowed final : public weir::sampler_policy {
public:
  explicit shadowed(std::uint64_t window) : order_(window) {}
  [[nodiscard]] std::string_view name() const override { return "shadowed"; }
  [[nodiscard]] std::uint64_t window() const override { return order_.window(); }
  [[nodiscard]] bool gated() const override { return true; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return false; }
  [[nodiscard]] weir::result<bool> admits(std::int64_t dispatched,
                                          weir::weight_version live) const override {
    return order_.admits(dispatched, live);
  }
  [[nodiscard]] weir::result<std::vector<weir::group_id>>
  select(const weir::slot_view& slots, const weir::selection& wanted) const override {
    return order_.select(slots, wanted);
  }

private:
  example::dispatch_order order_;
};

/// Takes everything that is ready, twice.
class doubling final : public weir::sampler_policy {
public:
  [[nodiscard]] std::string_view name() const override { return "doubling"; }
  [[nodiscard]] std::uint64_t window() const override { return 1; }
  [[nodiscard]] bool gated() const override { return false; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return true; }
  [[nodiscard]] weir::result<bool> admits(std::int64_t, weir::weight_version) const override {
    return true;
  }
  [[nodiscard]] weir::result<std::vector<weir::group_id>>
  select(const weir::slot_view& slots, const weir::selection& wanted) const override {
    std::vector<weir::group_id> chosen;
    for (const weir::policy_slot& slot : slots)
      if (slot.ready && chosen.size() < wanted.groups_max)
        chosen.insert(chosen.end(), 2, slot.group);
    return chosen;
  }
};

/// Its gate never opens.
class closed final : public weir::sampler_policy {
public:
  [[nodiscard]] std::string_view name() const override { return "closed"; }
  [[nodiscard]] std::uint64_t window() const override { return 1; }
  [[nodiscard]] bool gated() const override { return true; }
  [[nodiscard]] bool supports_buffer_checkpoint() const override { return true; }
  [[nodiscard]] weir::result<bool> admits(std::int64_t, weir::weight_version) const override {
    return false;
  }
  [[nodiscard]] weir::result<std::vector<weir::group_id>>
  select(const weir::slot_view&, const weir::selection&) const override {
    return std::vector<weir::group_id>();
  }
};

using policy_ptr = std::shared_ptr<const weir::sampler_policy>;

policy_ptr make_shadowed(const weir::sampler_arguments& given) {
  return std::make_shared<const shadowed>(given.window);
}
policy_ptr make_doubling(const weir::sampler_arguments&) {
  return std::make_shared<const doubling>();
}
policy_ptr make_closed(const weir::sampler_arguments&) {
  return std::make_shared<const closed>();
}
policy_ptr make_nothing(const weir::sampler_arguments&) {
  return nullptr;
}
policy_ptr fail_to_make(const weir::sampler_arguments&) {
  const std::vector<int> none;
  return none.at(3) > 0 ? nullptr : nullptr;
}

/// A plugin as another version of the interface lays it out.
struct foreign_plugin {
  std::array<char, 8> mark = weir::sampler_plugin::mark;
  std::uint32_t abi = 99;
  void* anything[4] = {};
};

/// As large as a plugin, and none.
struct other_data {
  std::uint64_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8};
};

} // namespace

extern "C" const weir::sampler_plugin shadowed_sampler;
const weir::sampler_plugin shadowed_sampler(&make_shadowed);
extern "C" const weir::sampler_plugin doubling_sampler;
const weir::sampler_plugin doubling_sampler(&make_doubling);
extern "C" const weir::sampler_plugin closed_sampler;
const weir::sampler_plugin closed_sampler(&make_closed);
extern "C" const weir::sampler_plugin empty_sampler;
const weir::sampler_plugin empty_sampler(&make_nothing);
extern "C" const weir::sampler_plugin failing_sampler;
const weir::sampler_plugin failing_sampler(&fail_to_make);

extern "C" const weir::sampler_plugin throwing_sampler;
const weir::sampler_plugin throwing_sampler(&weir::test::make_bad<weir::test::throwing>);
extern "C" const weir::sampler_plugin inventing_sampler;
const weir::sampler_plugin inventing_sampler(&weir::test::make_bad<weir::test::inventing>);
extern "C" const weir::sampler_plugin shutting_sampler;
const weir::sampler_plugin shutting_sampler(&weir::test::make_bad<weir::test::shutting>);
extern "C" const weir::sampler_plugin refusing_sampler;
const weir::sampler_plugin refusing_sampler(&weir::test::make_bad<weir::test::refusing>);
extern "C" const weir::sampler_plugin crowding_sampler;
const weir::sampler_plugin crowding_sampler(&weir::test::make_bad<weir::test::crowding>);
extern "C" const weir::sampler_plugin hesitating_sampler;
const weir::sampler_plugin hesitating_sampler(&weir::test::make_bad<weir::test::hesitating>);
extern "C" const weir::sampler_plugin sleeping_sampler;
const weir::sampler_plugin sleeping_sampler(&weir::test::make_bad<weir::test::sleeping>);

extern "C" const foreign_plugin foreign_sampler;
const foreign_plugin foreign_sampler;
extern "C" const other_data some_data;
const other_data some_data;
extern "C" int some_function();
int some_function() {
  return 7;
}
