#include "kernels/decoder.hpp"
#include "kernels/scorer.hpp"
#include "kernels/tokenizer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace {

using namespace weir;
using namespace weir::kernels;

/// Small enough to be quick, odd enough to meet every tail: grouped heads, two layers.
const model_config tiny{.vocabulary = 260,
                        .hidden = 48,
                        .layers = 2,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_size = 16,
                        .ffn = 80,
                        .context = 96};

published_weights weights_of(const model_config& config, std::uint64_t seed,
                             std::uint64_t version = 1) {
  // A plain initialization is nearly uniform: larger weights make tokens depend on the context.
  auto buffer = std::make_shared<float_buffer>(initial_weights(config, seed));
  for (float& value : buffer->values())
    value *= 4.0F;
  const std::size_t count = buffer->size();
  return {std::shared_ptr<const float>(buffer, buffer->data()), count, version};
}

std::unique_ptr<decoder> ready(const decoder_options& options, const model_config& config = tiny,
                               std::uint64_t seed = 5) {
  auto made = decoder::create(config, options).value();
  REQUIRE(made->set_weights(weights_of(config, seed)).has_value());
  return made;
}

struct request_text {
  std::uint64_t tag = 1;
  std::string prompt = "what is 7 plus 5?";
  std::uint32_t first = 0;
  std::uint32_t siblings = 4;
  std::uint32_t max_new_tokens = 24;
  sampling_options sampling{};
  std::vector<std::uint32_t> stops{};
  std::optional<std::uint64_t> pinned{};
};

result<void> admit(decoder& target, const request_text& asked) {
  const auto tokens = byte_tokenizer().encode(asked.prompt);
  return target.admit({.tag = asked.tag,
                       .prompt = tokens,
                       .sampling = asked.sampling,
                       .key = {.seed = 42, .epoch = 0, .position = asked.tag, .attempt = 0},
                       .first_sibling = asked.first,
                       .siblings = asked.siblings,
                       .max_new_tokens = asked.max_new_tokens,
                       .stop_tokens = asked.stops,
                       .pinned_version = asked.pinned});
}

/// Tokens of each (tag, sibling), in order.
using history = std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<emitted_token>>;

void record(history& into, decoder& source) {
  const auto step = source.step();
  REQUIRE(step.has_value());
  for (const emitted_token& one : *step)
    into[{one.tag, one.sibling}].push_back(one);
}

history drain(decoder& source) {
  history all;
  for (int step = 0; step < 10'000 && source.live_sequences() > 0; ++step)
    record(all, source);
  REQUIRE(source.live_sequences() == 0);
  return all;
}

history decode_alone(const request_text& asked, const decoder_options& options = {}) {
  const auto one = ready(options);
  REQUIRE(admit(*one, asked).has_value());
  return drain(*one);
}

const std::string long_prompt(70, 'x');

TEST_SUITE("kernels/decoder") {
  TEST_CASE("each sibling gets its tokens, its log-probabilities and its end") {
    const history all = decode_alone({});
    REQUIRE(all.size() == 4);
    for (const auto& [who, tokens] : all) {
      REQUIRE(tokens.size() == 24);
      for (std::size_t index = 0; index < tokens.size(); ++index) {
        CHECK(tokens[index].token < 260);
        CHECK(tokens[index].logprob < 0.0F);
        CHECK(tokens[index].sampling_logprob == tokens[index].logprob);
        CHECK(tokens[index].weight_version == 1);
        const bool last = index + 1 == tokens.size();
        CHECK(tokens[index].finished == (last ? finish_reason::length : finish_reason::none));
      }
    }
    CHECK(all.at({1, 0}) != all.at({1, 1}));
  }

  TEST_CASE("a restarted decoder gives the same bits") {
    CHECK(decode_alone({}) == decode_alone({}));
  }

  TEST_CASE("bits do not depend on the number of threads") {
    const request_text asked{.prompt = long_prompt, .siblings = 40, .max_new_tokens = 12};
    const history expected = decode_alone(asked);
    for (const std::uint32_t threads : {2U, 3U, 5U})
      CHECK(decode_alone(asked, {.threads = threads}) == expected);
  }

  TEST_CASE("bits do not depend on chunks, block size or capacity") {
    const request_text asked{.prompt = long_prompt, .max_new_tokens = 20};
    const history expected = decode_alone(asked);
    CHECK(decode_alone(asked, {.prefill_tokens = 1}) == expected);
    CHECK(decode_alone(asked, {.prefill_tokens = 7}) == expected);
    CHECK(decode_alone(asked, {.block_tokens = 32}) == expected);
    CHECK(decode_alone(asked, {.block_tokens = 48}) == expected);
    CHECK(decode_alone(asked, {.max_sequences = 4, .kv_blocks = 20}) == expected);
  }

  TEST_CASE("bits do not depend on who else shares the prompt") {
    const history together = decode_alone({.siblings = 4});
    for (std::uint32_t sibling = 0; sibling < 4; ++sibling) {
      const history alone = decode_alone({.first = sibling, .siblings = 1});
      CHECK(alone.at({1, sibling}) == together.at({1, sibling}));
    }
  }

  TEST_CASE("bits do not depend on the batch or the slot") {
    const request_text asked{.tag = 900, .prompt = "a pound of feathers"};
    const history expected = decode_alone(asked);
    const auto busy = ready({.max_sequences = 40, .prefill_tokens = 24, .threads = 2});
    history seen;
    for (std::uint64_t tag = 1; tag < 30; ++tag) {
      const request_text other{.tag = tag,
                               .prompt = std::string(1 + tag * 2, static_cast<char>('a' + tag)),
                               .siblings = 1 + static_cast<std::uint32_t>(tag % 3),
                               .max_new_tokens = 3 + static_cast<std::uint32_t>(tag)};
      std::ignore = admit(*busy, other);
      record(seen, *busy);
      if (tag == 11) REQUIRE(busy->abort(7) > 0);
      if (tag == 13) REQUIRE(admit(*busy, asked).has_value());
    }
    for (auto& [who, tokens] : drain(*busy))
      seen[who].insert(seen[who].end(), tokens.begin(), tokens.end());
    for (std::uint32_t sibling = 0; sibling < 4; ++sibling)
      CHECK(seen.at({900, sibling}) == expected.at({900, sibling}));
  }

  TEST_CASE("a sequence continued from its own prefix draws the same tokens") {
    const auto whole = decode_alone({.siblings = 1}).at({1, 0});
    std::vector<std::uint32_t> prompt = byte_tokenizer().encode(request_text{}.prompt);
    for (std::size_t index = 0; index < 10; ++index)
      prompt.push_back(whole[index].token);
    const auto one = ready({});
    REQUIRE(one->admit({.tag = 1,
                        .prompt = prompt,
                        .key = {.seed = 42, .epoch = 0, .position = 1, .attempt = 0},
                        .siblings = 1,
                        .max_new_tokens = 14})
                .has_value());
    const auto tail = drain(*one).at({1, 0});
    REQUIRE(tail.size() == 14);
    CHECK(std::equal(tail.begin(), tail.end(), whole.begin() + 10));
  }

  TEST_CASE("a stop token ends a sequence and is its last token") {
    const auto whole = decode_alone({.siblings = 1}).at({1, 0});
    const std::uint32_t stop = whole[5].token;
    const auto cut = decode_alone({.siblings = 1, .stops = {999, stop}}).at({1, 0});
    REQUIRE(cut.size() <= 6);
    CHECK(cut.back().token == stop);
    CHECK(cut.back().finished == finish_reason::stop);
    for (std::size_t index = 0; index + 1 < cut.size(); ++index)
      CHECK(cut[index] == whole[index]);
  }

  TEST_CASE("greedy siblings are alike, and greedy is what the logits say") {
    const history all = decode_alone({.sampling = {.temperature = 0.0F}});
    for (std::uint32_t sibling = 1; sibling < 4; ++sibling)
      for (std::size_t index = 0; index < 24; ++index)
        CHECK(all.at({1, sibling})[index].token == all.at({1, 0})[index].token);
    CHECK(all.at({1, 0})[3].sampling_logprob == 0.0F);
  }
}

/// Every generated token must have, in the scorer, the bits that the decoder reported.
void check_agreement(const model_config& config, isa_level isa) {
  const request_text asked{.prompt = std::string(21, 'm'), .siblings = 17, .max_new_tokens = 20};
  const auto one = ready({.prefill_tokens = 8, .threads = 2, .isa = isa}, config);
  REQUIRE(admit(*one, asked).has_value());
  const history generated = drain(*one);
  std::vector<std::vector<std::uint32_t>> tokens;
  std::vector<float> expected;
  for (const auto& [who, emitted] : generated) {
    tokens.push_back(byte_tokenizer().encode(asked.prompt));
    for (const emitted_token& token : emitted) {
      tokens.back().push_back(token.token);
      expected.push_back(token.logprob);
    }
  }
  std::vector<sequence> sequences;
  for (const auto& row : tokens) {
    sequences.emplace_back();
    sequences.back().tokens = row;
    sequences.back().prompt_length = 21;
  }
  const group groups[] = {{sequences}};
  std::vector<float> scored(expected.size());
  const published_weights weights = weights_of(config, 5);
  scorer reference(config, {.isa = isa});
  REQUIRE(reference.score({weights.values.get(), weights.count}, groups, scored).has_value());
  CHECK(std::memcmp(scored.data(), expected.data(), scored.size() * sizeof(float)) == 0);
}

TEST_SUITE("kernels/decoder/agreement") {
  TEST_CASE("log-probabilities are the scorer's, bit for bit, for every family and level") {
    for (const isa_level isa : usable_isa_levels())
      for (const int family : {0, 1, 2, 3}) {
        CAPTURE(family);
        model_config config = tiny;
        config.attention_bias = family == 1;
        config.qk_norm = family == 2;
        config.tied_embeddings = family != 3;
        check_agreement(config, isa);
      }
  }
}

TEST_SUITE("kernels/decoder/limits") {
  TEST_CASE("an impossible request is refused by name and changes nothing") {
    const auto one = ready({.max_sequences = 8});
    const auto refused = [&](const request_text& asked) {
      const auto answer = admit(*one, asked);
      REQUIRE_FALSE(answer.has_value());
      return answer.error();
    };
    CHECK(refused({.prompt = ""}).text ==
          "group 1: the prompt has no token: begin it with a start token");
    CHECK(refused({.prompt = long_prompt, .max_new_tokens = 27}).text ==
          "group 1: a prompt of 70 tokens and 27 new ones exceed the context of 96");
    CHECK(refused({.max_new_tokens = 0}).code == errc::invalid_argument);
    CHECK(refused({.max_new_tokens = 0xffffffff}).code == errc::invalid_argument);
    CHECK(refused({.siblings = 0}).code == errc::invalid_argument);
    CHECK(refused({.siblings = 9}).code == errc::invalid_argument);
    CHECK(refused({.sampling = {.top_p = 2.0F}}).code == errc::invalid_argument);
    CHECK(refused({.stops = std::vector<std::uint32_t>(17, 1)}).code == errc::invalid_argument);
    const std::vector<std::uint32_t> alien{'a', 260};
    const auto answer = one->admit({.tag = 1, .prompt = alien, .max_new_tokens = 1});
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().text == "group 1: prompt token 1 is 260: the vocabulary has 260");
    CHECK(one->live_sequences() == 0);
    CHECK(one->available_blocks() == 48);
  }

  TEST_CASE("a full decoder refuses for now, and takes the group once there is room") {
    const auto one = ready({.max_sequences = 4});
    REQUIRE(admit(*one, {.tag = 1}).has_value());
    const auto answer = admit(*one, {.tag = 2});
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().code == errc::exhausted);
    CHECK(one->abort(1) == 4);
    CHECK(one->abort(1) == 0);
    CHECK(one->available_blocks() == 24);
    CHECK(admit(*one, {.tag = 2}).has_value());
  }

  TEST_CASE("a live tag is taken") {
    const auto one = ready({});
    REQUIRE(admit(*one, {.tag = 3}).has_value());
    CHECK(admit(*one, {.tag = 3}).error().code == errc::already_exists);
  }

  TEST_CASE("a decoder without weights says so") {
    const auto one = decoder::create(tiny, {}).value();
    CHECK(one->step().error().code == errc::unavailable);
    published_weights wrong = weights_of(tiny, 1);
    wrong.count -= 1;
    CHECK(one->set_weights(wrong).error().code == errc::invalid_argument);
    CHECK(one->set_weights({}).error().code == errc::invalid_argument);
  }

  TEST_CASE("options out of range are refused") {
    CHECK_FALSE(decoder::create(tiny, {.max_sequences = 0}).has_value());
    CHECK_FALSE(decoder::create(tiny, {.block_tokens = 8}).has_value());
    CHECK_FALSE(decoder::create(tiny, {.prefill_tokens = 0}).has_value());
    CHECK_FALSE(decoder::create(tiny, {.threads = 0}).has_value());
    const auto large = decoder::create(tiny, {.kv_blocks = 100, .cache_bytes_max = 100'000});
    REQUIRE_FALSE(large.has_value());
    CHECK(large.error().code == errc::exhausted);
    CHECK(large.error().text ==
          "decoder: a cache of 100 blocks exceeds 100000 bytes: lower kv_blocks or max_sequences");
    CHECK(decoder::create(tiny, {.kv_blocks = 0xffffffff}).error().code == errc::exhausted);
    model_config odd = tiny;
    odd.kv_heads = 3;
    CHECK_FALSE(decoder::create(odd, {}).has_value());
  }

  TEST_CASE("diverged weights end the decoder with the place, not with a hang") {
    const auto one = ready({.threads = 2});
    auto buffer = std::make_shared<float_buffer>(initial_weights(tiny, 1));
    buffer->data()[parameter_layout(tiny).final_norm] = std::numeric_limits<float>::quiet_NaN();
    const std::size_t count = buffer->size();
    REQUIRE(one->set_weights({std::shared_ptr<const float>(buffer, buffer->data()), count, 12})
                .has_value());
    REQUIRE(admit(*one, {.tag = 6, .siblings = 1}).has_value());
    const auto answer = one->step();
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().code == errc::corrupt);
    CHECK(answer.error().text.starts_with("group 6, sibling 0, position 17, weight version 12: "));
    CHECK(one->step().error() == answer.error());
  }

  TEST_CASE("random admissions, steps and aborts leak nothing") {
    const auto one = ready({.max_sequences = 24, .kv_blocks = 60, .prefill_tokens = 20});
    std::uint64_t state = 9;
    const auto draw = [&](std::uint32_t bound) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<std::uint32_t>(state >> 33) % bound;
    };
    std::uint64_t tag = 0;
    for (int round = 0; round < 300; ++round) {
      const request_text asked{.tag = ++tag,
                               .prompt = std::string(1 + draw(60), 'q'),
                               .siblings = 1 + draw(6),
                               .max_new_tokens = 1 + draw(30),
                               .stops = {draw(260), draw(260)}};
      std::ignore = admit(*one, asked);
      if (draw(3) == 0) one->abort(1 + draw(static_cast<std::uint32_t>(tag)));
      REQUIRE(one->step().has_value());
    }
    drain(*one);
    CHECK(one->live_groups() == 0);
    CHECK(one->available_blocks() == 60);
  }
}

TEST_SUITE("kernels/decoder/weights") {
  TEST_CASE("weights change between steps without ending a sequence") {
    const auto one = ready({});
    REQUIRE(admit(*one, {}).has_value());
    history all;
    for (int step = 0; step < 10; ++step)
      record(all, *one);
    REQUIRE(one->set_weights(weights_of(tiny, 6, 2)).has_value());
    CHECK(one->weight_version() == 2);
    for (auto& [who, tokens] : drain(*one))
      all[who].insert(all[who].end(), tokens.begin(), tokens.end());
    for (const auto& [who, tokens] : all) {
      REQUIRE(tokens.size() == 24);
      for (std::size_t index = 0; index < tokens.size(); ++index)
        CHECK(tokens[index].weight_version == (index < 10 ? 1 : 2));
    }
  }

  TEST_CASE("groups of several versions decode in one batch, each with the bits it has alone") {
    const auto both = ready({.prefill_tokens = 24, .threads = 2, .earlier_versions = 1});
    REQUIRE(both->set_weights(weights_of(tiny, 6, 2)).has_value());
    for (const std::uint64_t tag : {1U, 2U, 3U, 4U})
      REQUIRE(admit(*both, {.tag = tag, .prompt = long_prompt, .pinned = 1 + tag % 2}).has_value());
    const history all = drain(*both);
    REQUIRE(all.size() == 16);
    for (const std::uint64_t tag : {1U, 2U, 3U, 4U}) {
      const std::uint64_t version = 1 + tag % 2;
      const auto alone = decoder::create(tiny, {}).value();
      REQUIRE(alone->set_weights(weights_of(tiny, 4 + version, version)).has_value());
      REQUIRE(admit(*alone, {.tag = tag, .prompt = long_prompt}).has_value());
      for (const auto& [who, tokens] : drain(*alone))
        CHECK(all.at(who) == tokens);
    }
  }

  TEST_CASE("a pinned group notices no update, whether caches are computed anew or kept") {
    for (const bool recompute : {false, true}) {
      const auto one = ready({.recompute_on_update = recompute, .earlier_versions = 0});
      REQUIRE(admit(*one, {.pinned = 1}).has_value());
      history all;
      for (int step = 0; step < 10; ++step)
        record(all, *one);
      for (const std::uint64_t version : {2U, 3U, 4U})
        REQUIRE(one->set_weights(weights_of(tiny, 4 + version, version)).has_value());
      CHECK(one->weight_version() == 4);
      for (auto& [who, tokens] : drain(*one))
        all[who].insert(all[who].end(), tokens.begin(), tokens.end());
      CHECK(all == decode_alone({}));
    }
  }

  TEST_CASE("as many versions are held as asked, and none is pinned to that is not") {
    const auto one = ready({.earlier_versions = 1});
    REQUIRE(one->set_weights(weights_of(tiny, 6, 2)).has_value());
    REQUIRE(one->set_weights(weights_of(tiny, 7, 3)).has_value());
    CHECK(admit(*one, {.tag = 2, .pinned = 2}).has_value());
    CHECK(admit(*one, {.tag = 3, .pinned = 3}).has_value());
    const auto gone = admit(*one, {.tag = 1, .pinned = 1});
    REQUIRE(gone.error().code == errc::not_found);
    CHECK(gone.error().text ==
          "group 1: is pinned to weight version 1, and the decoder holds 2, 3: "
          "publish it first");
    CHECK(one->live_groups() == 2);
  }

  TEST_CASE("a cache that is kept gives other log-probabilities than one that is computed anew") {
    const auto after_update = [](bool recompute) {
      const auto one = ready({.recompute_on_update = recompute});
      REQUIRE(admit(*one, {.siblings = 1}).has_value());
      history all;
      record(all, *one);
      REQUIRE(one->set_weights(weights_of(tiny, 6, 2)).has_value());
      return drain(*one).at({1, 0}).front();
    };
    CHECK(after_update(false).logprob != after_update(true).logprob);
  }

  /// After the update, tokens must be those of a decoder that never saw the old weights.
  void check_recomputed(std::size_t prompt_size, int steps_before) {
    CAPTURE(prompt_size);
    CAPTURE(steps_before);
    const request_text asked{.prompt = std::string(prompt_size, 'r'), .max_new_tokens = 20};
    const auto one = ready({.prefill_tokens = 9, .recompute_on_update = true});
    REQUIRE(admit(*one, asked).has_value());
    history before;
    for (int step = 0; step < steps_before; ++step)
      record(before, *one);
    REQUIRE(one->set_weights(weights_of(tiny, 6, 2)).has_value());
    const history after = drain(*one);
    for (const auto& [who, tokens] : after) {
      std::vector<std::uint32_t> prompt = byte_tokenizer().encode(asked.prompt);
      for (const emitted_token& token : before[who])
        prompt.push_back(token.token);
      const auto reference = decoder::create(tiny, {}).value();
      REQUIRE(reference->set_weights(weights_of(tiny, 6, 2)).has_value());
      REQUIRE(reference
                  ->admit({.tag = 1,
                           .prompt = prompt,
                           .key = {.seed = 42, .epoch = 0, .position = 1, .attempt = 0},
                           .first_sibling = who.second,
                           .max_new_tokens = static_cast<std::uint32_t>(tokens.size())})
                  .has_value());
      CHECK(drain(*reference).at(who) == tokens);
    }
  }

  TEST_CASE("a cache that is computed anew holds nothing of the old weights") {
    for (const std::size_t prompt_size : {3U, 16U, 37U})
      for (const int steps_before : {1, 3, 8, 15})
        check_recomputed(prompt_size, steps_before);
  }
}

} // namespace
