#include "keys.hpp"

#include "section.hpp"
#include "values.hpp"

namespace subring::config {

namespace {

using Ends = NumberRange::Ends;

// Token ids, positions and rows are 32-bit in shards and kernels.
constexpr int64_t kMaxInt32 = 2147483647;
// Widths: far above any model, low enough that the product of two and a chunk's tokens fits 63
// bits.
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxSteps = 1'000'000'000'000;
constexpr int64_t kMaxRanks = 1 << 16;

void add_model(std::vector<Key>& keys) {
  using Options = model::ModelOptions;
  Section<Options> s(keys, "model.", [](Config& c) -> Options& { return c.model; });
  s.integer("hidden_size", &Options::hidden_size, {1, kMaxWidth}, "", "width of the model");
  s.integer("num_hidden_layers", &Options::num_hidden_layers, {1, 4096}, "", "number of blocks");
  s.integer("num_attention_heads",
            &Options::num_attention_heads,
            {1, kMaxWidth},
            "",
            "query heads; divides hidden_size into heads of even size");
  s.integer("num_key_value_heads",
            &Options::num_key_value_heads,
            {1, kMaxWidth},
            "",
            "heads of K and V; divides num_attention_heads");
  s.integer("intermediate_size",
            &Options::intermediate_size,
            {1, 8 * kMaxWidth},
            "",
            "width inside the SwiGLU layer");
  s.integer("vocab_size",
            &Options::vocab_size,
            {2, kMaxInt32},
            "tokens",
            "entries of the vocabulary; 257 for the bytes tokenizer");
  s.number("rope_theta",
           &Options::rope_theta,
           {.min = 1.0, .max = 1e12},
           "",
           "base of RoPE's wavelengths");
  s.number("rms_norm_eps",
           &Options::rms_norm_eps,
           {.min = 0.0, .max = 1.0, .ends = Ends::open_below},
           "",
           "added to the mean square in RMSNorm");
  s.on_off("tie_word_embeddings",
           &Options::tie_word_embeddings,
           "the output head is the embedding table");
  s.on_off("activation_recomputation",
           &Options::activation_recomputation,
           "keep only block inputs and attention outputs for the backward pass: less memory, about "
           "a third more computation");
}

void add_data(std::vector<Key>& keys) {
  using Options = data::DataOptions;
  Section<Options> s(keys, "data.", [](Config& c) -> Options& { return c.data; });
  s.text("train", &Options::train, "a glob of token shards", "shards to train on; must be given");
  s.text("validation",
         &Options::validation,
         "a glob of token shards, or \"\"",
         "held-out shards; \"\": no evaluation");
  s.integer("seq_len",
            &Options::seq_len,
            {1, kMaxInt32},
            "tokens",
            "length of one sequence, over all its ranks");
  s.integer("batch_size",
            &Options::batch_size,
            {1, 1 << 20},
            "sequences",
            "sequences of one step, over all data-parallel groups");
  s.on_off("shuffle", &Options::shuffle, "seeded order of the sequences, another one each epoch");
}

void add_training(std::vector<Key>& keys) {
  using Options = train::TrainingOptions;
  Section<Options> s(keys, "training.", [](Config& c) -> Options& { return c.training; });
  s.integer("steps", &Options::steps, {1, kMaxSteps}, "steps", "length of the run");
  s.integer("seed", &Options::seed, {}, "", "of initial weights, data order and rounding");
  s.number("max_norm",
           &Options::max_norm,
           {},
           "",
           "gradients are clipped to this global norm; 0: not clipped");
  s.integer("eval_interval",
            &Options::eval_interval,
            {0, kMaxSteps},
            "steps",
            "between evaluations; 0: only after the last step");
  s.integer("eval_batches",
            &Options::eval_batches,
            {1, kMaxInt32},
            "batches",
            "batches of one evaluation");
}

void add_optimizer(std::vector<Key>& keys) {
  using Options = train::OptimizerOptions;
  Section<Options> s(keys, "optimizer.", [](Config& c) -> Options& { return c.optimizer; });
  s.only("name", &Options::name, "adamw", "the optimizer");
  s.number("lr", &Options::lr, {.min = 0.0, .max = 1e3}, "", "peak learning rate");
  s.number_pair("betas",
                &Options::betas,
                {.min = 0.0, .max = 1.0, .ends = Ends::open_above},
                "",
                "decay of the first and the second moment");
  s.number("eps",
           &Options::eps,
           {.min = 0.0, .max = 1.0, .ends = Ends::open_below},
           "",
           "added to the root of the second moment");
  s.number("weight_decay",
           &Options::weight_decay,
           {.min = 0.0, .max = 1e3},
           "",
           "of matrices; never of norms, biases, angle heads and bases");
}

void add_lr_scheduler(std::vector<Key>& keys) {
  using Options = train::LrSchedulerOptions;
  Section<Options> s(keys, "lr_scheduler.", [](Config& c) -> Options& { return c.lr_scheduler; });
  s.integer("warmup_steps",
            &Options::warmup_steps,
            {0, kMaxSteps},
            "steps",
            "linear warm-up of the learning rate");
  s.choice("decay", &Options::decay, "its course from the warm-up to the last step");
  s.number("min_lr_factor",
           &Options::min_lr_factor,
           {.min = 0.0, .max = 1.0},
           "",
           "learning rate at the last step, relative to optimizer.lr");
}

void add_parallelism(std::vector<Key>& keys) {
  using Options = mesh::ParallelismOptions;
  Section<Options> s(keys, "parallelism.", [](Config& c) -> Options& { return c.parallelism; });
  s.integer("context_parallel_degree",
            &Options::context_parallel_degree,
            {1, kMaxRanks, "auto", 0},
            "ranks",
            "ranks that share one sequence; auto: all ranks / other degrees");
  s.integer("pipeline_parallel_degree",
            &Options::pipeline_parallel_degree,
            {1, 1},
            "ranks",
            "pipeline parallelism is not available yet");
  s.integer("data_parallel_degree",
            &Options::data_parallel_degree,
            {1, kMaxRanks},
            "groups",
            "groups of context-parallel ranks with sequences of their own; divides batch_size");
  s.integer("chunks",
            &Options::chunks,
            {1, 4096, "auto", 0},
            "chunks",
            "pieces of a sequence, its unit of compression; auto: one a rank (contiguous) or two a "
            "rank (zigzag)");
  s.choice("load_balancer",
           &Options::load_balancer,
           "which chunks a rank holds: neighbours, or one early and one late (equal work)");
}

void add_compression(std::vector<Key>& keys) {
  using Options = codec::CompressionOptions;
  Section<Options> s(keys, "compression.", [](Config& c) -> Options& { return c.compression; });
  s.choice(
      "codec",
      &Options::codec,
      "K and V of other chunks: plain, coordinates in subspaces, one joint latent, their largest "
      "entries, or all in few bits");
  s.integer("key_rank",
            &Options::key_rank,
            {1, kMaxWidth},
            "",
            "coordinates of K a token; at most the width of K");
  s.integer("value_rank",
            &Options::value_rank,
            {1, kMaxWidth},
            "",
            "coordinates of V a token; at most the width of V");
  s.integer("latent_rank",
            &Options::latent_rank,
            {1, kMaxWidth},
            "",
            "codec latent: numbers a token for K and V together; at most twice the width of K, and "
            "hidden_size");
  s.integer("warmup_steps",
            &Options::warmup_steps,
            {0, kMaxSteps},
            "steps",
            "plain steps before compression; 0: a random basis from the start");
  s.integer("covariance_steps",
            &Options::covariance_steps,
            {1, kMaxSteps},
            "steps",
            "last plain steps whose K and V give the basis; all of a shorter warm start");
  s.on_off("exact_local",
           &Options::exact_local,
           "pairs of tokens inside one chunk use plain K and V; costs no bytes, keeps the model "
           "causal");
  s.on_off("learned_basis", &Options::learned_basis, "the basis is trained, by Riemannian steps");
  s.number("basis_lr_factor",
           &Options::basis_lr_factor,
           {.min = 0.0, .max = 1e6},
           "",
           "learning rate of the basis, relative to optimizer.lr");
  s.number("topk_fraction",
           &Options::topk_fraction,
           {.min = 0.0, .max = 1.0, .ends = Ends::open_below},
           "",
           "codec topk: share of each token's K and V that travels, gradients too");
  s.choice(
      "wire_dtype",
      &Options::wire_dtype,
      "format on the wire: of coordinates, with topk of kept values, with none and quantize of "
      "plain K and V");
  s.choice(
      "warmup_wire_dtype",
      &Options::warmup_wire_dtype,
      "format of plain K and V on the wire before and after compression: warm start, unplugged");
  s.integer("unplug_at_step",
            &Options::unplug_at_step,
            {1, kMaxSteps, "never", -1},
            "steps",
            "back to plain K and V from this step on; after warmup_steps, up to training.steps");

  using Rotation = codec::RotationOptions;
  Section<Rotation> r(
      keys, "compression.rotation.", [](Config& c) -> Rotation& { return c.compression.rotation; });
  r.choice("kind", &Rotation::kind, "how a subspace turns with its chunk's content");
  r.choice("source",
           &Rotation::source,
           "whose mean gives the angle; chunk without exact_local is not causal");
  r.integer("generators",
            &Rotation::generators,
            {1, kMaxWidth},
            "angles",
            "angles of a subspace; at most half the width of K");
}

void add_weight_sync(std::vector<Key>& keys) {
  using Options = sync::SyncOptions;
  Section<Options> s(keys, "weight_sync.", [](Config& c) -> Options& { return c.weight_sync; });
  s.choice("method",
           &Options::method,
           "sum gradients every step, or take local steps and average the weights");
  s.integer("every",
            &Options::every,
            {1, kMaxSteps},
            "steps",
            "steps between averages; only with method average");
  s.on_off("average_moments",
           &Options::average_moments,
           "average the optimizer's moments too; only with method average");
  s.on_off(
      "rotate_chunks", &Options::rotate_chunks, "move each rank's chunks on by one rank each step");
  s.choice("wire_dtype",
           &Options::wire_dtype,
           "format of gradients (all_reduce) or weight differences (average) on the wire");
  s.on_off("overlap",
           &Options::overlap,
           "averages travel during the next `every` steps and are applied after them; only with "
           "method average");
}

void add_run(std::vector<Key>& keys) {
  using Wire = wire::WireOptions;
  Section<Wire> w(keys, "wire.", [](Config& c) -> Wire& { return c.wire; });
  w.choice("transport", &Wire::transport, "auto: mpi under mpirun or srun, else local (threads)");
  w.number("timeout_seconds",
           &Wire::timeout_seconds,
           {.min = 0.0, .max = 1e9, .ends = Ends::open_below},
           "seconds",
           "a transfer that takes longer ends the run, its peer named");

  using Metrics = train::MetricsOptions;
  Section<Metrics> m(keys, "metrics.", [](Config& c) -> Metrics& { return c.metrics; });
  m.integer("log_interval",
            &Metrics::log_interval,
            {1, kMaxSteps},
            "steps",
            "between progress lines where stderr is no terminal");
  m.integer("spectra_interval",
            &Metrics::spectra_interval,
            {0, kMaxSteps},
            "steps",
            "between spectra of Q, K and V in metrics.jsonl (rank study); 0: never");
  m.on_off("tensorboard", &Metrics::tensorboard, "TensorBoard event files beside metrics.jsonl");
  m.on_off(
      "trace", &Metrics::trace, "writes trace.json, a timeline of the last steps of all ranks");
  m.integer("trace_steps", &Metrics::trace_steps, {1, 1000}, "steps", "of the timeline");

  Section<BackendOptions> b(keys, "", [](Config& c) -> BackendOptions& { return c.backend; });
  b.choice("backend", &BackendOptions::backend, "what computes; auto: the best of this machine");
  b.integer("threads",
            &BackendOptions::threads,
            {1, 4096, "auto", 0},
            "threads",
            "of one rank; auto: cores of the host / its ranks, at least 1");
}

std::vector<Key> make_keys() {
  std::vector<Key> keys;
  add_model(keys);
  add_data(keys);
  add_training(keys);
  add_optimizer(keys);
  add_lr_scheduler(keys);
  add_parallelism(keys);
  add_compression(keys);
  add_weight_sync(keys);
  add_network(keys);
  add_run(keys);
  return keys;
}

}  // namespace

const std::vector<Key>& all_keys() {
  static const std::vector<Key> keys = make_keys();
  return keys;
}

const Key* find_key(std::string_view path) {
  for (const Key& key : all_keys()) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

}  // namespace subring::config
