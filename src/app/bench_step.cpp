#include <algorithm>
#include <memory>

#include "bench.hpp"
#include "subring/core/random.hpp"
#include "subring/model/transformer.hpp"
#include "subring/train/optimizer.hpp"
#include "subring/wire/local.hpp"

namespace subring::bench {
namespace {

struct StepCase {
  model::ModelOptions model{.hidden_size = 512,
                            .num_hidden_layers = 8,
                            .num_attention_heads = 8,
                            .num_key_value_heads = 8,
                            .intermediate_size = 1376,
                            .vocab_size = 4096};
  int64_t tokens = 4096;
  int chunks = 1;
};

/// One sequence through forward, backward, clipping norm and AdamW, on one rank.
class Step {
 public:
  Step(Session& session, const StepCase& c, codec::Codec codec, wire::Transport& transport)
      : session_(session) {
    compression_.codec = codec;
    compression_.key_rank = c.model.kv_width() / 16;
    compression_.value_rank = c.model.kv_width() / 8;
    const attention::ContextShape context{.hidden_size = c.model.hidden_size,
                                          .num_query_heads = c.model.num_attention_heads,
                                          .num_kv_heads = c.model.num_key_value_heads,
                                          .head_dim = c.model.head_dim(),
                                          .rope_theta = c.model.rope_theta,
                                          .chunk_tokens = c.tokens / c.chunks,
                                          .num_chunks = c.chunks,
                                          .num_owned_chunks = c.chunks};
    transformer_ =
        std::make_unique<model::Transformer>(*session.backend, c.model, compression_, context, 1);
    transformer_->parameters().initialize(*session.backend, 1, *session.stream);
    if (codec == codec::Codec::subspace) transformer_->set_kv_form(model::KvForm::subspace);
    const ring::ChunkMap map{
        1, std::vector<int>(static_cast<size_t>(c.chunks), 0), context.chunk_tokens};
    transformer_->set_chunks({&transport, {0}, 0, std::chrono::seconds(60)}, map);
    optimizer_ = std::make_unique<train::Optimizer>(*session.backend,
                                                    train::OptimizerOptions{},
                                                    compression_.basis_lr_factor,
                                                    transformer_->parameters());
    Random random(1);
    for (int64_t i = 0; i < c.tokens; ++i) {
      tokens_.push_back(
          static_cast<int32_t>(random.below(static_cast<uint64_t>(c.model.vocab_size))));
    }
  }

  void run() {
    Stream& stream = *session_.stream;
    const View gradients = transformer_->parameters().flat_gradients();
    session_.backend->fill(gradients, 0, stream);
    transformer_->forward(tokens_, stream);
    transformer_->loss_and_gradient(tokens_, 1.0F / static_cast<float>(tokens_.size()), stream);
    transformer_->backward(1, stream);
    optimizer_->project_gradients(stream);
    session_.backend->squared_norm(gradients, stream);
    optimizer_->step(1e-4, 1, train::OptimizerScope::with_codec, stream);
  }

  int64_t num_matmul_parameters() { return transformer_->parameters().num_matmul_parameters(); }

 private:
  Session& session_;
  codec::CompressionOptions compression_;
  std::unique_ptr<model::Transformer> transformer_;
  std::unique_ptr<train::Optimizer> optimizer_;
  std::vector<int32_t> tokens_;
};

void bench_step(Session& session, const StepCase& c) {
  print_header(session);
  Ceilings ceilings(session);
  wire::run_local_ranks(1, [&](wire::Transport& transport) {
    for (const auto codec : {codec::Codec::none, codec::Codec::subspace}) {
      Step step(session, c, codec, transport);
      const auto tokens = static_cast<double>(c.tokens);
      // 6 N T for the weights; attention 4 T^2 d forward and twice that backward, causal half.
      const double flops = 6 * static_cast<double>(step.num_matmul_parameters()) * tokens +
                           6 * tokens * tokens * static_cast<double>(c.model.hidden_size) *
                               static_cast<double>(c.model.num_hidden_layers);
      print_flops(fmt::format("training step, {} tokens in {} chunks, codec {}",
                              c.tokens,
                              c.chunks,
                              to_string(codec)),
                  flops,
                  time_against(
                      session, [&] { ceilings.product(); }, [&] { step.run(); }));
    }
  });
}

}  // namespace

void add_step_bench(CLI::App& program, Session& session) {
  CLI::App* command = program.add_subcommand(
      "step", "a whole training step on one rank (6 N T + causal attention) against a product");
  const auto c = std::make_shared<StepCase>();
  command->add_option("--hidden", c->model.hidden_size, "width; heads of 64")
      ->capture_default_str();
  command->add_option("--layers", c->model.num_hidden_layers)->capture_default_str();
  command->add_option("--tokens", c->tokens)->capture_default_str();
  command->add_option("--chunks", c->chunks, "of the sequence")->capture_default_str();
  command->add_option("--vocab", c->model.vocab_size)->capture_default_str();
  command->callback([&session, c] {
    model::ModelOptions& model = c->model;
    model.num_attention_heads = model.num_key_value_heads =
        std::max<int64_t>(model.hidden_size / 64, 1);
    model.intermediate_size = model.hidden_size * 43 / 16;
    bench_step(session, *c);
  });
}

}  // namespace subring::bench
