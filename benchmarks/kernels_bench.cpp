/// Figures of the CPU kernels: matrix products against OpenBLAS, the training step of the main job,
/// what sharing a prompt saves, and decoding in a batch against one by one.
///
///     kernels_bench [PATH]        writes PATH, by default build/benchmarks/kernels.json
///
/// OpenBLAS runs on one thread, like the products it is compared with.
#include "benchmarks/report.hpp"
#include "kernels/decoder.hpp"
#include "kernels/trainer.hpp"

#include <cblas.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

// Not in every cblas.h; OpenBLAS exports it.
extern "C" void openblas_set_num_threads(int threads);

namespace {

using namespace weir;
using namespace weir::kernels;
using namespace weir::benchmarks;

// -- matrix products ------------------------------------------------------------------------------

struct shape {
  std::size_t rows, outputs, inputs;
};

/// The products of one layer and the head of the default policy; rows as they come in the main job.
std::vector<shape> layer_shapes(std::size_t rows) {
  return {{rows, 128, 128}, {rows, 128, 128}, {rows, 128, 128}, {rows, 128, 128},
          {rows, 384, 128}, {rows, 384, 128}, {rows, 128, 384}, {rows, 260, 128}};
}

/// Forward product, gradient of the input and gradient of the weights, of every shape.
class products {
public:
  explicit products(const std::vector<shape>& shapes) : ops_(operations_of(detected_isa())) {
    for (const shape& s : shapes) {
      operands o;
      o.size = s;
      o.x.assign(s.rows * s.inputs, 0.5F);
      o.w.assign(s.outputs * s.inputs, 0.25F);
      o.y.assign(s.rows * s.outputs, 0.0F);
      o.dw.assign(s.outputs * s.inputs, 0.0F);
      o.packed = packed_matrix(s.outputs, s.inputs);
      o.packed.pack(o.w.data());
      flops_ += 6.0 * static_cast<double>(s.rows * s.outputs * s.inputs);
      all_.push_back(std::move(o));
    }
  }

  void ours() {
    for (operands& o : all_) {
      const auto [rows, outputs, inputs] = o.size;
      const matrix_view y{o.y.data(), rows, outputs, outputs};
      multiply(ops_, {o.x.data(), rows, inputs, inputs}, o.packed, y);
      multiply_plain(ops_, y, {o.w.data(), outputs, inputs, inputs},
                     {o.x.data(), rows, inputs, inputs}, write_mode::overwrite);
      multiply_transposed(ops_, y, {o.x.data(), rows, inputs, inputs},
                          {o.dw.data(), outputs, inputs, inputs}, write_mode::overwrite);
      bound(o);
    }
  }

  void blas() {
    for (operands& o : all_) {
      const auto m = static_cast<int>(o.size.rows);
      const auto n = static_cast<int>(o.size.outputs);
      const auto k = static_cast<int>(o.size.inputs);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0F, o.x.data(), k, o.w.data(),
                  k, 0.0F, o.y.data(), n);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, k, n, 1.0F, o.y.data(), n,
                  o.w.data(), k, 0.0F, o.x.data(), k);
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, k, m, 1.0F, o.y.data(), n, o.x.data(),
                  k, 0.0F, o.dw.data(), k);
      bound(o);
    }
  }

  [[nodiscard]] double gigaflops(double calls) const { return flops_ * calls * 1e-9; }

private:
  struct operands {
    shape size{};
    std::vector<float> x, w, y, dw;
    packed_matrix packed;
  };

  /// x is overwritten by its own gradient: put it back before it grows without bound.
  static void bound(operands& o) { o.x.assign(o.x.size(), 0.5F); }

  const operations& ops_;
  std::vector<operands> all_;
  double flops_ = 0.0;
};

row product_row(std::size_t rows) {
  products work(layer_shapes(rows));
  claim what;
  what.text = "training matrix products, " + std::to_string(rows) + " rows, 1 thread";
  what.unit = "GFLOP/s";
  what.baseline_name = "OpenBLAS sgemm, 1 thread";
  what.target = 0.8;
  return compare(
      what, [&] { return work.gigaflops(calls_per_second([&] { work.ours(); })); },
      [&] { return work.gigaflops(calls_per_second([&] { work.blas(); })); });
}

// -- the training step ----------------------------------------------------------------------------

/// 32 groups of 8 siblings: prompts of 20 tokens, completions of 10.
class main_job {
public:
  main_job() {
    constexpr std::uint32_t groups = 32, siblings = 8, prompt = 20, completion = 10;
    std::uint32_t draw = 1;
    const auto next = [&draw] { return (draw = draw * 1664525U + 1013904223U) >> 8; };
    logprobs_.assign(completion, -5.5F);
    tokens_.reserve(groups * siblings);
    for (std::uint32_t g = 0; g < groups; ++g) {
      std::vector<std::uint32_t> head;
      for (std::uint32_t i = 0; i < prompt; ++i)
        head.push_back(next() % 256);
      std::vector<sequence>& members = sequences_.emplace_back();
      for (std::uint32_t s = 0; s < siblings; ++s) {
        std::vector<std::uint32_t>& all = tokens_.emplace_back(head);
        for (std::uint32_t i = 0; i < completion; ++i)
          all.push_back(next() % 256);
        sequence item;
        item.tokens = all;
        item.prompt_length = prompt;
        item.advantage = s % 2 == 0 ? 1.0F : -1.0F;
        item.generation_logprobs = logprobs_;
        members.push_back(item);
      }
    }
  }

  [[nodiscard]] std::vector<group> shared() const {
    std::vector<group> result;
    for (const std::vector<sequence>& members : sequences_)
      result.push_back({members});
    return result;
  }

  /// Siblings far apart, so that none finds its prompt computed.
  [[nodiscard]] std::vector<sequence> scattered() const {
    std::vector<sequence> all;
    for (std::size_t s = 0; s < sequences_[0].size(); ++s)
      for (const std::vector<sequence>& members : sequences_)
        all.push_back(members[s]);
    return all;
  }

private:
  std::vector<float> logprobs_;
  std::vector<std::vector<std::uint32_t>> tokens_;
  std::vector<std::vector<sequence>> sequences_;
};

/// One step; returns the report. Weights that do not change keep every step alike.
step_report take_step(trainer& train, const training_state& before, std::span<const group> groups,
                      training_state& after) {
  auto report = train.policy_step(before, groups, {}, {}, after);
  if (!report) {
    std::fprintf(stderr, "training step: %s\n", to_string(report.error()).c_str());
    std::exit(1);
  }
  return *report;
}

/// The step of the main job with prompts that are not shared: most rows, most arithmetic.
class training_rate {
public:
  explicit training_rate(std::uint32_t threads)
      : sequences_(job_.scattered()), train_(config_, {.threads = threads}),
        before_(begin_training(config_, initial_weights(config_, 1))) {
    for (std::size_t first = 0; first < sequences_.size(); first += 8)
      groups_.push_back({std::span(sequences_).subspan(first, 8)});
  }

  /// Six operations per weight and row; the head's weights only for rows that predict. Attention,
  /// norms and AdamW take time but are not counted.
  double gigaflops() {
    const auto head = static_cast<double>(std::size_t{config_.vocabulary} * config_.hidden);
    const double body = static_cast<double>(before_.weights.size()) - head;
    step_report report;
    const auto step = [&] { report = take_step(train_, before_, groups_, after_); };
    const double rate = calls_per_second(step, 0.1);
    return 6e-9 * rate *
           (body * static_cast<double>(report.computed_rows) +
            head * static_cast<double>(report.valid_tokens));
  }

private:
  model_config config_;
  main_job job_;
  std::vector<sequence> sequences_;
  std::vector<group> groups_;
  trainer train_;
  training_state before_;
  training_state after_;
};

row training_row() {
  training_rate step(1);
  products work(layer_shapes(240));
  claim what;
  what.text = "whole training step of the main job, 1 thread";
  what.unit = "GFLOP/s";
  what.baseline_name = "OpenBLAS sgemm on its products alone, 1 thread";
  what.target = 0.6;
  return compare(
      what, [&] { return step.gigaflops(); },
      [&] { return work.gigaflops(calls_per_second([&] { work.blas(); }, 0.1)); });
}

row training_rate_row() {
  training_rate step(2);
  claim what;
  what.text = "whole training step of the main job, 2 threads";
  what.unit = "GFLOP/s";
  what.baseline_name = "what the main job needs on an idle machine of two cores";
  return compare(what, [&] { return step.gigaflops(); }, [] { return 40.0; });
}

row prompt_sharing_row() {
  const model_config config;
  const main_job job;
  const std::vector<group> together = job.shared();
  const std::vector<sequence> sequences = job.scattered();
  std::vector<group> apart;
  for (std::size_t first = 0; first < sequences.size(); first += 8)
    apart.push_back({std::span(sequences).subspan(first, 8)});
  trainer train(config, {});
  const training_state before = begin_training(config, initial_weights(config, 1));
  training_state after;
  const auto rate = [&](const std::vector<group>& groups) {
    return calls_per_second([&] { take_step(train, before, groups, after); }, 0.1);
  };
  claim what;
  what.text = "training steps with each prompt computed once per group";
  what.unit = "steps/s";
  what.baseline_name = "the same sequences, prompts not shared";
  what.target = 1.5;
  return compare(what, [&] { return rate(together); }, [&] { return rate(apart); });
}

// -- decoding -------------------------------------------------------------------------------------

class decode_job {
public:
  explicit decode_job(std::uint32_t batch) {
    const model_config config;
    decoder_options options;
    options.max_sequences = batch;
    auto made = decoder::create(config, options);
    if (!made) std::exit(1);
    decoder_ = std::move(*made);
    auto weights = std::make_shared<float_buffer>(initial_weights(config, 1));
    const published_weights published{std::shared_ptr<const float>(weights, weights->data()),
                                      weights->size(), 1};
    if (!decoder_->set_weights(published)) std::exit(1);
  }

  /// Decodes 64 sequences of 32 tokens, as many at a time as fit; returns tokens per second.
  double tokens_per_second() {
    std::size_t tokens = 0;
    const double seconds = seconds_of([&] {
      std::uint32_t admitted = 0;
      while (admitted < 64 || decoder_->live_groups() > 0) {
        while (admitted < 64 && admit(admitted))
          ++admitted;
        const auto emitted = decoder_->step();
        if (!emitted) std::exit(1);
        tokens += emitted->size();
      }
    });
    return static_cast<double>(tokens) / seconds;
  }

private:
  bool admit(std::uint32_t index) {
    const std::uint32_t prompt[] = {257, 49, 43, 50, 61, 10};
    decode_request request;
    request.tag = index + 1;
    request.prompt = prompt;
    request.key = {1, 0, index, 0};
    request.max_new_tokens = 32;
    return decoder_->admit(request).has_value();
  }

  std::unique_ptr<decoder> decoder_;
};

row decode_row() {
  decode_job together(64);
  decode_job alone(1);
  claim what;
  what.text = "decoding 64 sequences in one batch, 1 thread";
  what.unit = "tokens/s";
  what.baseline_name = "one after the other (the same bits)";
  what.target = 2.0;
  return compare(
      what, [&] { return together.tokens_per_second(); },
      [&] { return alone.tokens_per_second(); });
}

} // namespace

int main(int argument_count, char** arguments) {
  openblas_set_num_threads(1);
  std::printf("instruction set: %s\n", std::string(to_string(detected_isa())).c_str());
  const std::vector<row> rows = {product_row(24),     product_row(240),     training_row(),
                                 training_rate_row(), prompt_sharing_row(), decode_row()};
  return publish(rows, argument_count > 1 ? arguments[1] : "build/benchmarks/kernels.json");
}
