#include "kernels/decoder.hpp"

#include "kernels/decoder_batch.hpp"
#include "kernels/decoder_forward.hpp"
#include "kernels/parallel.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace weir::kernels {

namespace {

/// Fewer rows than this are not worth a thread: each part reads all weights once.
constexpr std::size_t part_rows_min = 8;

/// What one thread does of a step, all with the same weights, and the error that it met.
struct decode_part {
  forward_part rows;
  std::vector<std::uint32_t> segments; ///< Indices into the plan, in row order.
  std::optional<error> failed;
};

class batch_decoder final : public decoder {
public:
  batch_decoder(const model_config& config, const decoder_options& options)
      : options_(options), layout_(config), batch_(config, options),
        shelf_(config, layout_, options.earlier_versions), forward_(config, options),
        pool_({.threads = options.threads}), drawn_(options.max_sequences) {
    rows_.reserve(std::size_t{options.max_sequences} + options.prefill_tokens);
    for (std::uint32_t thread = 0; thread < options.threads; ++thread)
      samplers_.emplace_back(operations_of(options.isa), config.vocabulary);
  }

  result<void> attach_device() { return forward_.attach_device(options_); }

  result<void> set_weights(const published_weights& weights) override;
  result<void> admit(const decode_request& request) override;
  result<std::span<const emitted_token>> step() override;
  std::uint32_t abort(std::uint64_t tag) override { return batch_.abort(tag); }

  std::uint32_t live_sequences() const noexcept override { return batch_.cache().live_sequences(); }
  std::uint32_t live_groups() const noexcept override { return batch_.live_groups(); }
  std::uint32_t available_blocks() const noexcept override {
    return batch_.cache().free_blocks() - batch_.cache().promised_blocks();
  }
  std::uint64_t weight_version() const noexcept override {
    return shelf_.current() != nullptr ? shelf_.current()->version() : 0;
  }

private:
  void divide(std::span<const decode_segment> segments);
  void divide_among(std::span<const decode_segment> segments, const packed_weights& weights,
                    std::size_t rows);
  [[nodiscard]] const packed_weights& weights_of(const decode_segment& segment) const;
  void lay_out(std::span<const decode_segment> segments);
  void run_part(decode_part& part, std::uint32_t thread, std::span<const decode_segment> segments);
  void draw(const decode_segment& segment, std::uint32_t logits, row_sampler& sampler,
            decode_part& part);

  decoder_options options_;
  parameter_layout layout_;
  decoder_batch batch_;
  weight_shelf shelf_;
  decoder_forward forward_;
  thread_pool pool_;
  std::optional<error> failed_;
  std::vector<forward_row> rows_;
  std::vector<sampled_token> drawn_; ///< Per slot; each is written by one thread.
  std::vector<row_sampler> samplers_;
  std::vector<decode_part> parts_; ///< At most one per thread and version.
  std::size_t parts_used_ = 0;     ///< Of the step at hand.
};

result<void> batch_decoder::set_weights(const published_weights& weights) {
  const std::size_t expected = layout_.total;
  if (!weights.values || weights.count != expected)
    return failure(errc::invalid_argument, "weight version " + std::to_string(weights.version) +
                                               " has " + std::to_string(weights.count) +
                                               " floats: the model has " +
                                               std::to_string(expected));
  const bool is_update = shelf_.current() != nullptr;
  shelf_.put(weights, batch_.pinned_versions());
  if (is_update && options_.recompute_on_update) batch_.recompute();
  return {};
}

result<void> batch_decoder::admit(const decode_request& request) {
  if (request.pinned_version && shelf_.find(*request.pinned_version) == nullptr)
    return failure(errc::not_found,
                   "group " + std::to_string(request.tag) + ": is pinned to weight version " +
                       std::to_string(*request.pinned_version) + ", and the decoder holds " +
                       shelf_.versions() + ": publish it first");
  return batch_.admit(request);
}

result<std::span<const emitted_token>> batch_decoder::step() {
  if (shelf_.current() == nullptr)
    return failure(errc::unavailable, "the decoder has no weights yet: publish a version first");
  if (failed_) return failure(*failed_);
  const auto segments = batch_.plan();
  if (segments.empty()) return std::span<const emitted_token>{};
  divide(segments);
  lay_out(segments);
  auto task = [&](std::size_t part, std::size_t thread) {
    run_part(parts_[part], static_cast<std::uint32_t>(thread), segments);
  };
  pool_.run(parts_used_, task);
  for (const decode_part& part : std::span(parts_).first(parts_used_))
    if (part.failed) {
      failed_ = part.failed;
      return failure(*failed_);
    }
  const decoder_batch::committed step = batch_.commit(drawn_, weight_version());
  for (const kv_block_copy& copy : step.copies)
    forward_.copy_block(copy);
  return step.emitted;
}

const packed_weights& batch_decoder::weights_of(const decode_segment& segment) const {
  const auto pinned = batch_.pinned_version(segment);
  const packed_weights* weights = pinned ? shelf_.find(*pinned) : shelf_.current();
  ensure(weights != nullptr, "the version of a live group is held");
  return *weights;
}

/// Parts of one set of weights after the other: any division gives the same bits.
void batch_decoder::divide(std::span<const decode_segment> segments) {
  parts_used_ = 0;
  for (const decode_segment& first : segments) {
    const packed_weights& weights = weights_of(first);
    const auto has_part = [&](const decode_part& part) { return part.rows.weights == &weights; };
    if (std::ranges::any_of(std::span(parts_).first(parts_used_), has_part)) continue;
    std::size_t rows = 0;
    for (const decode_segment& segment : segments)
      if (&weights_of(segment) == &weights) rows += segment.count;
    divide_among(segments, weights, rows);
  }
}

/// Gives each segment of these weights to the part with the fewest rows, long segments first.
void batch_decoder::divide_among(std::span<const decode_segment> segments,
                                 const packed_weights& weights, std::size_t rows) {
  const std::size_t worthwhile = std::clamp<std::size_t>(rows / part_rows_min, 1, options_.threads);
  if (parts_.size() < parts_used_ + worthwhile) parts_.resize(parts_used_ + worthwhile);
  const auto mine = std::span(parts_).subspan(parts_used_, worthwhile);
  parts_used_ += worthwhile;
  for (decode_part& part : mine) {
    part.rows = {};
    part.rows.weights = &weights;
    part.segments.clear();
    part.failed.reset();
  }
  const auto row_count = [](const decode_part& part) { return part.rows.row_count; };
  for (const bool long_ones : {true, false})
    for (std::uint32_t index = 0; index < segments.size(); ++index) {
      if ((segments[index].count > 1) != long_ones) continue;
      if (&weights_of(segments[index]) != &weights) continue;
      decode_part& part = *std::ranges::min_element(mine, {}, row_count);
      part.segments.push_back(index);
      part.rows.row_count += segments[index].count;
    }
}

void batch_decoder::lay_out(std::span<const decode_segment> segments) {
  rows_.clear();
  std::uint32_t logits = 0;
  for (decode_part& part : std::span(parts_).first(parts_used_)) {
    part.rows.first_row = static_cast<std::uint32_t>(rows_.size());
    part.rows.first_logits = logits;
    for (const std::uint32_t index : part.segments) {
      const decode_segment& segment = segments[index];
      const auto tokens = batch_.tokens(segment.slot);
      const std::uint32_t* table = batch_.cache().table(segment.slot).data();
      for (std::uint32_t offset = 0; offset < segment.count; ++offset) {
        const std::uint32_t position = segment.first + offset;
        const bool last = segment.completes && offset + 1 == segment.count;
        rows_.push_back({tokens[position], position, table, last});
      }
      logits += segment.completes ? 1 : 0;
    }
  }
}

void batch_decoder::run_part(decode_part& part, std::uint32_t thread,
                             std::span<const decode_segment> segments) {
  if (part.segments.empty()) return;
  if (auto done = forward_.compute(rows_, part.rows, thread); !done) {
    part.failed = std::move(done).error();
    return;
  }
  std::uint32_t logits = part.rows.first_logits;
  for (const std::uint32_t index : part.segments)
    if (segments[index].completes) draw(segments[index], logits++, samplers_[thread], part);
}

void batch_decoder::draw(const decode_segment& segment, std::uint32_t logits, row_sampler& sampler,
                         decode_part& part) {
  batch_.for_draws(segment, [&](const decoder_batch::group& owner, const decode_draw& place) {
    const double uniform = owner.randomness.uniform(place.sibling, place.position);
    const auto token = sampler.draw(forward_.logits(logits), owner.sampling, uniform);
    if (token)
      drawn_[place.slot] = *token;
    else
      part.failed = error{token.error().code,
                          "group " + std::to_string(owner.tag) + ", sibling " +
                              std::to_string(place.sibling) + ", position " +
                              std::to_string(place.position) + ", weight version " +
                              std::to_string(owner.pinned_version.value_or(weight_version())) +
                              ": " + token.error().text};
  });
}

result<void> check(const decoder_options& options) {
  const auto refused = [](const char* why) {
    return failure(errc::invalid_argument, std::string("decoder: ").append(why));
  };
  if (options.max_sequences == 0 || options.max_sequences > 1U << 16)
    return refused("max_sequences must be 1 to 65536");
  if (options.block_tokens == 0 || options.block_tokens % 16 != 0 || options.block_tokens > 1024)
    return refused("block_tokens must be a multiple of 16, at most 1024");
  if (options.prefill_tokens == 0 || options.prefill_tokens > 1U << 16)
    return refused("prefill_tokens must be 1 to 65536");
  if (options.threads == 0 || options.threads > 1024) return refused("threads must be 1 to 1024");
  return {};
}

/// Blocks of the cache, as asked for or as full contexts need; refused when they are too large.
result<std::uint32_t> count_blocks(const model_config& config, const decoder_options& options) {
  const std::uint64_t whole =
      (std::uint64_t{config.context} + options.block_tokens - 1) / options.block_tokens;
  const std::uint64_t blocks =
      options.kv_blocks != 0 ? options.kv_blocks : whole * options.max_sequences;
  const std::uint64_t kv_size = std::uint64_t{config.kv_heads} * config.head_size;
  std::uint64_t bytes = sizeof(float) * 2 * kv_size;
  const bool overflows = __builtin_mul_overflow(bytes, config.layers, &bytes) ||
                         __builtin_mul_overflow(bytes, options.block_tokens, &bytes) ||
                         __builtin_mul_overflow(bytes, blocks, &bytes);
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  if (overflows || bytes > options.cache_bytes_max || blocks > most)
    return failure(errc::exhausted, "decoder: a cache of " + std::to_string(blocks) +
                                        " blocks exceeds " +
                                        std::to_string(options.cache_bytes_max) +
                                        " bytes: lower kv_blocks or max_sequences");
  return static_cast<std::uint32_t>(blocks);
}

} // namespace

result<std::unique_ptr<decoder>> decoder::create(const model_config& config,
                                                 const decoder_options& options) {
  if (const auto valid = validate(config); !valid) return failure(valid.error());
  if (const auto valid = check(options); !valid) return failure(valid.error());
  const auto blocks = count_blocks(config, options);
  if (!blocks) return failure(blocks.error());
  decoder_options sized = options;
  sized.kv_blocks = *blocks;
  auto made = std::make_unique<batch_decoder>(config, sized);
  if (const auto attached = made->attach_device(); !attached) return failure(attached.error());
  return made;
}

} // namespace weir::kernels
