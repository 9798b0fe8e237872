#include "kernels/trainer.hpp"
#include "tests/kernels/reference_model.hpp"
#include "tests/kernels/training_data.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

using namespace weir;
using namespace weir::kernels;

namespace {

std::vector<double> in_double(const float_buffer& values) {
  return {values.values().begin(), values.values().end()};
}

std::vector<float> copy_of(std::span<const float> values) {
  return {values.begin(), values.end()};
}

/// The loss of a step in double. `prev` are log-probabilities before the step, group by group.
double reference_loss(const reference_model& model, std::span<const group> groups,
                      const loss_options& options, const std::vector<double>& prev) {
  double total = 0.0;
  double count = 0.0;
  std::size_t at = 0;
  for (const group& one : groups)
    for (const sequence& item : one.sequences) {
      const std::vector<double> now = model.logprobs(item.tokens, item.prompt_length);
      for (std::size_t i = 0; i < now.size(); ++i, ++at) {
        token_sample sample;
        sample.logp_new = now[i];
        sample.logp_prev = prev[at];
        sample.logp_generation = double{item.generation_logprobs[i]};
        sample.logp_reference = double{item.reference_logprobs[i]};
        sample.advantage = double{item.advantage};
        total += evaluate_token(options, sample).loss;
        count += 1.0;
      }
    }
  return total / count;
}

std::vector<double> reference_logprobs(const reference_model& model,
                                       std::span<const group> groups) {
  std::vector<double> all;
  for (const group& one : groups)
    for (const sequence& item : one.sequences)
      for (const double value : model.logprobs(item.tokens, item.prompt_length))
        all.push_back(value);
  return all;
}

/// Compares gradients with central differences of `loss` at some elements of every parameter: the
/// error of an element relative to the largest gradient seen in its parameter.
void check_gradients(reference_model& model, std::span<const float> gradients,
                     const std::function<double()>& loss) {
  for (const parameter& item : model.layout().parameters) {
    CAPTURE(item.name);
    double largest = 0.0;
    double worst = 0.0;
    const std::size_t stride = item.count / 5 + 1;
    for (std::size_t i = 0; i < item.count; i += stride) {
      double& weight = model.weights()[item.offset + i];
      const double kept = weight;
      constexpr double step = 1e-4;
      weight = kept + step;
      const double above = loss();
      weight = kept - step;
      const double below = loss();
      weight = kept;
      const double exact = (above - below) / (2.0 * step);
      largest = std::max(largest, std::abs(exact));
      worst = std::max(worst, std::abs(double{gradients[item.offset + i]} - exact));
    }
    CHECK(largest > 0.0);
    CHECK(worst <= 1e-4 * largest);
  }
}

std::vector<model_config> gradient_configs() {
  model_config plain = tiny_config();
  model_config rich = tiny_config();
  rich.tied_embeddings = false;
  rich.attention_bias = true;
  rich.qk_norm = true;
  rich.kv_heads = 4;
  rich.head_size = 8;
  return {plain, rich};
}

std::vector<std::vector<std::size_t>> some_lengths() {
  return {{5, 1, 3}, {4, 7}, {2, 2, 2, 6}};
}

} // namespace

TEST_SUITE("kernels/trainer") {
  TEST_CASE("log-probabilities match the model in double, with shared and with own prompts") {
    for (const model_config& config : gradient_configs()) {
      const float_buffer weights = lively_weights(config, 3);
      const sequence_set data(config, some_lengths());
      const std::vector<group> groups = data.groups();
      const reference_model model(config, in_double(weights));
      const std::vector<double> exact = reference_logprobs(model, groups);
      for (const isa_level level : usable_isa_levels()) {
        CAPTURE(to_string(level));
        scorer score(config, {.isa = level});
        std::vector<float> got(data.completion_tokens());
        REQUIRE(score.score(weights.values(), groups, got).has_value());
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK(std::abs(double{got[i]} - exact[i]) <= 2e-5);
      }
    }
  }

  TEST_CASE("gradients of the policy loss match finite differences for every parameter") {
    loss_options loss;
    loss.reference_policy_kl_penalty = 0.3;
    loss.importance_sampling_max = 1.5;
    for (const model_config& config : gradient_configs()) {
      const float_buffer weights = lively_weights(config, 5);
      const sequence_set data(config, {{4, 1, 3}, {2, 5}});
      const std::vector<group> groups = data.groups();
      reference_model model(config, in_double(weights));
      const std::vector<double> prev = reference_logprobs(model, groups);
      trainer train(config, {});
      const auto report = train.policy_gradients(weights.values(), groups, loss);
      REQUIRE(report.has_value());
      CHECK(report->valid_tokens == data.completion_tokens());
      CHECK(report->mean_ratio == 1.0);
      CHECK(report->loss ==
            doctest::Approx(reference_loss(model, groups, loss, prev)).epsilon(1e-5));
      check_gradients(model, train.gradients(),
                      [&] { return reference_loss(model, groups, loss, prev); });
    }
  }

  TEST_CASE("gradients of cross-entropy match finite differences") {
    const model_config config = gradient_configs()[1];
    const float_buffer weights = lively_weights(config, 6);
    sequence_set data(config, {{4, 3}});
    const std::uint8_t mask[] = {1, 0, 1, 1};
    data.sequences()[0][0].loss_mask = mask;
    const std::vector<sequence>& sequences = data.sequences()[0];
    reference_model model(config, in_double(weights));
    trainer train(config, {});
    const auto report = train.supervised_gradients(weights.values(), sequences);
    REQUIRE(report.has_value());
    CHECK(report->valid_tokens == 6);
    check_gradients(model, train.gradients(), [&] {
      const std::vector<double> a = model.logprobs(sequences[0].tokens, sequences[0].prompt_length);
      const std::vector<double> b = model.logprobs(sequences[1].tokens, sequences[1].prompt_length);
      return -(a[0] + a[2] + a[3] + b[0] + b[1] + b[2]) / 6.0;
    });
  }

  TEST_CASE("a step has the same bits for one, two and three threads") {
    const model_config config = tiny_config();
    const sequence_set data(config, {{5, 1, 3}, {4, 7}, {2, 6}, {3}, {8, 8}, {1, 1, 1}, {2}});
    const std::vector<group> groups = data.groups();
    const training_state before = begin_training(config, lively_weights(config, 8));
    std::vector<float> wanted;
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      trainer train(config, {.threads = threads});
      training_state after;
      for (int repeat = 0; repeat < 3; ++repeat) {
        REQUIRE(train.policy_step(before, groups, {}, {}, after).has_value());
        if (wanted.empty()) wanted = copy_of(after.weights.values());
        CHECK(copy_of(after.weights.values()) == wanted);
        CHECK(after.optimizer_step == 1);
      }
    }
  }

  /// The state after one step whose groups come in chunks of these sizes.
  std::vector<float> trained_in_chunks(std::initializer_list<std::size_t> sizes,
                                       const loss_options& loss) {
    const model_config config = tiny_config();
    const sequence_set data(config, {{5, 1, 3}, {4, 7}, {2, 6}, {3}, {8, 8}, {1, 1, 1}, {2}});
    const std::vector<group> groups = data.groups();
    const training_state before = begin_training(config, lively_weights(config, 8));
    trainer train(config, {.threads = 2});
    REQUIRE(train.begin_step(before.weights.values(), loss).has_value());
    std::size_t first = 0;
    for (const std::size_t size : sizes) {
      REQUIRE(train.add_groups(std::span(groups).subspan(first, size)).has_value());
      first += size;
    }
    REQUIRE(first == groups.size());
    training_state after;
    REQUIRE(train.finish_step(before, {}, after).has_value());
    return copy_of(after.weights.values());
  }

  TEST_CASE("a step in chunks has the bits of the whole step, whatever the chunks") {
    for (const bool by_token : {true, false}) {
      loss_options loss;
      loss.token_level_loss = by_token;
      loss.seq_logprob_error_threshold = 3.0;
      const std::vector<float> whole = trained_in_chunks({7}, loss);
      CHECK(trained_in_chunks({1, 1, 1, 1, 1, 1, 1}, loss) == whole);
      CHECK(trained_in_chunks({3, 4}, loss) == whole);
      CHECK(trained_in_chunks({2, 0, 4, 1}, loss) == whole);
    }
  }

  TEST_CASE("a chunk without a trainable token leaves the step as it was") {
    const model_config config = tiny_config();
    const sequence_set some(config, {{5, 1}, {4}});
    const sequence_set none(config, {{0, 0}, {0}});
    const training_state before = begin_training(config, lively_weights(config, 8));
    const auto train_with = [&](bool empty_chunk) {
      trainer train(config, {});
      REQUIRE(train.begin_step(before.weights.values(), {}).has_value());
      CHECK(train.add_groups(some.groups()).value() == 10);
      if (empty_chunk) CHECK(train.add_groups(none.groups()).value() == 0);
      training_state after;
      REQUIRE(train.finish_step(before, {}, after)->valid_tokens == 10);
      return copy_of(after.weights.values());
    };
    CHECK(train_with(true) == train_with(false));
    trainer train(config, {});
    training_state after;
    REQUIRE(train.begin_step(before.weights.values(), {}).has_value());
    CHECK(train.add_groups(none.groups()).value() == 0);
    CHECK(train.finish_step(before, {}, after).error().code == errc::invalid_argument);
    CHECK(after.weights.size() == 0);
  }

  TEST_CASE("AVX2 and AVX-512 take the same step, bit for bit; generic stays close") {
    const model_config config = gradient_configs()[1];
    const sequence_set data(config, some_lengths());
    const float_buffer weights = lively_weights(config, 9);
    std::vector<std::vector<float>> gradients;
    for (const isa_level level : usable_isa_levels()) {
      trainer train(config, {.isa = level});
      REQUIRE(train.policy_gradients(weights.values(), data.groups(), {}).has_value());
      gradients.push_back(copy_of(train.gradients()));
    }
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      CHECK(std::abs(gradients.back()[i] - gradients[0][i]) <= 1e-5F);
    if (detected_isa() >= isa_level::avx512) CHECK(gradients[1] == gradients[2]);
  }

  TEST_CASE("a sequence scores the same bits alone, among siblings and in any order") {
    const model_config config = tiny_config();
    const float_buffer weights = lively_weights(config, 10);
    sequence_set data(config, {{5, 1, 9, 3}});
    std::vector<sequence> siblings = data.sequences()[0];
    scorer score(config, {});
    std::vector<float> together(18);
    REQUIRE(score.score(weights.values(), std::vector<group>{{siblings}}, together).has_value());
    std::vector<float> apart(18);
    std::vector<group> singles;
    for (const sequence& item : siblings)
      singles.push_back({std::span(&item, 1)});
    REQUIRE(score.score(weights.values(), singles, apart).has_value());
    CHECK(apart == together);
    std::swap(siblings[0], siblings[2]);
    std::vector<float> swapped(18);
    REQUIRE(score.score(weights.values(), std::vector<group>{{siblings}}, swapped).has_value());
    CHECK(std::equal(swapped.begin(), swapped.begin() + 9, together.begin() + 6));
    CHECK(std::equal(swapped.begin() + 10, swapped.begin() + 15, together.begin()));
  }

  TEST_CASE("sequence-level loss weighs each sequence alike") {
    const model_config config = tiny_config();
    const float_buffer weights = lively_weights(config, 11);
    sequence_set data(config, {{2, 6}});
    for (sequence& item : data.sequences()[0])
      item.generation_logprobs = {};
    data.sequences()[0][0].advantage = 1.0F;
    data.sequences()[0][1].advantage = -0.5F;
    loss_options loss;
    loss.use_importance_sampling_correction = false;
    trainer train(config, {});
    const auto by_token = train.policy_gradients(weights.values(), data.groups(), loss);
    REQUIRE(by_token.has_value());
    CHECK(by_token->loss == doctest::Approx(-(2.0 * 1.0 - 6.0 * 0.5) / 8.0));
    loss.token_level_loss = false;
    const auto by_sequence = train.policy_gradients(weights.values(), data.groups(), loss);
    REQUIRE(by_sequence.has_value());
    CHECK(by_sequence->loss == doctest::Approx(-(1.0 - 0.5) / 2.0));
  }

  TEST_CASE("a sequence whose generation log-probabilities are far off is left out") {
    const model_config config = tiny_config();
    const float_buffer weights = lively_weights(config, 12);
    sequence_set data(config, {{3, 4}});
    scorer score(config, {});
    std::vector<float> prev(7);
    REQUIRE(score.score(weights.values(), data.groups(), prev).has_value());
    std::vector<float> far(prev.begin() + 3, prev.end());
    far[1] -= 8.0F;
    data.sequences()[0][0].generation_logprobs = std::span(prev).first(3);
    data.sequences()[0][1].generation_logprobs = far;
    loss_options loss;
    loss.seq_logprob_error_threshold = 2.0;
    trainer train(config, {});
    const auto report = train.policy_gradients(weights.values(), data.groups(), loss);
    REQUIRE(report.has_value());
    CHECK(report->masked_sequences == 1);
    CHECK(report->valid_tokens == 3);
    CHECK(report->mean_importance == 1.0);
    CHECK(report->loss == doctest::Approx(-data.sequences()[0][0].advantage));
  }

  TEST_CASE("a group whose advantages are all zero counts its tokens and adds no gradient") {
    const model_config config = tiny_config();
    const float_buffer weights = lively_weights(config, 13);
    sequence_set data(config, {{3, 3}, {3, 3}});
    trainer train(config, {});
    data.sequences()[1][0].advantage = data.sequences()[1][1].advantage = 0.0F;
    const auto half = train.policy_gradients(weights.values(), data.groups(), {});
    REQUIRE(half.has_value());
    const std::vector<float> with_zeros = copy_of(train.gradients());
    const std::vector<group> first{data.groups()[0]};
    const auto whole = train.policy_gradients(weights.values(), first, {});
    REQUIRE(whole.has_value());
    CHECK(half->valid_tokens == 12);
    CHECK(half->loss == doctest::Approx(whole->loss / 2.0));
    CHECK(half->grad_norm == doctest::Approx(whole->grad_norm / 2.0));
  }

  TEST_CASE("what does not fit the model is refused by name, and nothing is written") {
    const model_config config = tiny_config();
    const training_state before = begin_training(config, lively_weights(config, 14));
    training_state after;
    trainer train(config, {});
    const auto step = [&](sequence_set& data) {
      return train.policy_step(before, data.groups(), {}, {}, after);
    };
    const auto text_of = [](const result<step_report>& failed) {
      REQUIRE(!failed.has_value());
      CHECK(failed.error().code == errc::invalid_argument);
      return failed.error().text;
    };
    sequence_set long_one(config, {{3}, {2, 60}});
    CHECK(text_of(step(long_one)).find("group 1, sequence 1: 64 tokens") != std::string::npos);
    sequence_set strange(config, {{3}});
    const std::uint32_t tokens[] = {1, 2, 19, 3, 4, 5};
    strange.sequences()[0][0].tokens = tokens;
    CHECK(text_of(step(strange)).find("token 19") != std::string::npos);
    sequence_set no_generation(config, {{3}});
    no_generation.sequences()[0][0].generation_logprobs = {};
    CHECK(text_of(step(no_generation)).find("generation") != std::string::npos);
    sequence_set nothing(config, {{0, 0}});
    CHECK(text_of(step(nothing)).find("no token") != std::string::npos);
    sequence_set promptless(config, {{3}});
    promptless.sequences()[0][0].prompt_length = 0;
    CHECK(text_of(step(promptless)).find("prompt_length is 0") != std::string::npos);
    CHECK(after.weights.size() == 0);
  }

  TEST_CASE("weights that are not finite are reported as corrupt") {
    const model_config config = tiny_config();
    training_state before = begin_training(config, lively_weights(config, 15));
    before.weights.data()[0] = std::numeric_limits<float>::quiet_NaN();
    sequence_set data(config, {{3, 2}});
    std::vector<std::uint32_t> tokens{0, 0, 0, 0, 0, 0};
    data.sequences()[0][0].tokens = tokens;
    trainer train(config, {});
    training_state after;
    const auto report = train.policy_step(before, data.groups(), {}, {}, after);
    REQUIRE(!report.has_value());
    CHECK(report.error().code == errc::corrupt);
    CHECK(after.weights.size() == 0);
  }

  TEST_CASE("a cancelled step fails as cancelled and leaves the state alone") {
    const model_config config = tiny_config();
    const training_state before = begin_training(config, lively_weights(config, 16));
    const sequence_set data(config, some_lengths());
    const std::atomic<bool> cancelled{true};
    trainer train(config, {.cancelled = &cancelled});
    training_state after;
    const auto report = train.policy_step(before, data.groups(), {}, {}, after);
    REQUIRE(!report.has_value());
    CHECK(report.error().code == errc::cancelled);
    CHECK(after.weights.size() == 0);
  }

  TEST_CASE("steps reduce the loss they are taken on") {
    const model_config config = tiny_config();
    sequence_set data(config, {{5, 3, 4, 6}});
    training_state now = begin_training(config, initial_weights(config, 1));
    training_state next;
    trainer train(config, {});
    double first = 0.0;
    double last = 0.0;
    for (int step = 0; step < 60; ++step) {
      const auto report = train.supervised_step(now, data.sequences()[0], {.lr = 1e-2}, next);
      REQUIRE(report.has_value());
      (step == 0 ? first : last) = report->loss;
      std::swap(now, next);
    }
    CHECK(first == doctest::Approx(std::log(19.0)).epsilon(0.1));
    CHECK(last < 0.2 * first);
  }
}
