#include <algorithm>
#include <limits>

#include "subring/attention/context_attention.hpp"

namespace subring::attention {

/// Everything the pieces of one forward call work on.
struct ContextAttention::ForwardPass {
  ContextAttention& self;
  const LayerAttention& layer;
  const ChunksDone& done;
  Stream& stream;
  int64_t num_reported = 0;

  TraceDetail detail(int key_chunk) const { return {.layer = layer.index, .chunk = key_chunk}; }

  /// Folds the block in k_, v_ into the queries of one owned chunk.
  void attend(int64_t query_index, int key_chunk) {
    const int query_chunk = self.owned()[static_cast<size_t>(query_index)];
    const View lse = layer.saved.lse.rows(query_index, 1)
                         .reshape({self.shape_.num_query_heads, self.shape_.chunk_tokens});
    self.backend_.attention_forward_block(self.block_shape(query_chunk, key_chunk),
                                          self.chunk_rows(layer.inputs.q, query_index),
                                          self.k_,
                                          self.v_,
                                          self.chunk_rows(layer.saved.out, query_index),
                                          lse,
                                          stream);
  }

  void attend_compressed(int key_chunk) {
    if (!self.read_compressed_here(key_chunk)) return;
    const TraceSpan span(stream.trace(), "attend block", detail(key_chunk));
    self.load_compressed(layer.codec, layer.saved, key_chunk, stream);
    for (size_t i = 0; i < self.owned().size(); ++i) {
      if (self.reads_compressed(self.owned()[i], key_chunk)) {
        attend(static_cast<int64_t>(i), key_chunk);
      }
    }
  }

  void attend_owned() {
    for (size_t i = 0; i < self.owned().size(); ++i) {
      const int chunk = self.owned()[i];
      if (self.shape_.local_form == LocalForm::exact) {
        const TraceSpan span(stream.trace(), "attend own chunk", detail(chunk));
        self.load_exact(layer.inputs, static_cast<int64_t>(i), stream);
        attend(static_cast<int64_t>(i), chunk);
      }
      attend_compressed(chunk);
      report(i + 1, -1);
    }
  }

  /// Reports owned chunks before the one with index `end` that need nothing after the block of
  /// another rank's `visited` (-1: none yet). A chunk that no one waits for goes with the next one.
  void report(size_t end, int visited) {
    const auto& arrivals = self.schedule().arrivals;
    const auto last_visit =
        std::find_if(arrivals.begin(), arrivals.end(), [&](const auto& arrival) {
          return arrival.chunk == visited;
        });
    const auto first_to_come = visited < 0 ? arrivals.begin() : last_visit + 1;
    const auto complete = [&](int chunk) {
      return std::none_of(first_to_come, arrivals.end(), [&](const auto& arrival) {
        return self.reads_compressed(chunk, arrival.chunk);
      });
    };
    bool awaited = false;
    int64_t after = num_reported;
    while (after < static_cast<int64_t>(end)) {
      const int chunk = self.owned()[static_cast<size_t>(after)];
      if (!complete(chunk)) break;
      awaited |= self.flight_of(layer).exchange->leaves(chunk);
      ++after;
    }
    const bool all = after == self.shape_.num_owned_chunks;
    if (after == num_reported || (!awaited && !all)) return;
    const ChunkRange chunks{num_reported, after - num_reported};
    num_reported = after;
    done(chunks);
  }
};

void ContextAttention::compute_angles(const LayerAttention& layer,
                                      ChunkRange chunks,
                                      Stream& stream) {
  if (layer.codec.layout().num_angles == 0) return;
  for (int64_t i = chunks.first; i < chunks.end(); ++i) {
    backend_.column_mean(chunk_rows(layer.inputs.x, i),
                         layer.saved.means.rows(i, 1).reshape({shape_.hidden_size}),
                         stream);
  }
  angles_.forward(layer.codec,
                  layer.saved.means,
                  chunks,
                  all_theta(layer.codec, layer.saved.theta),
                  flight_of(layer).angles,
                  stream);
}

void ContextAttention::start_forward(const LayerAttention& layer) {
  flight_of(layer).exchange->start_forward(slots(layer.codec, layer.saved.blocks));
}

void ContextAttention::send_forward(const LayerAttention& layer,
                                    ChunkRange chunks,
                                    Stream& stream) {
  ring::RingExchange& exchange = *flight_of(layer).exchange;
  compute_angles(layer, chunks, stream);
  const auto scratch = codec::BlockTensors::carve(coordinates_, layer.codec.layout());
  for (int64_t i = chunks.first; i < chunks.end(); ++i) {
    const int chunk = owned()[static_cast<size_t>(i)];
    if (!exchange.leaves(chunk) && !read_compressed_here(chunk)) continue;
    const TraceSpan span(stream.trace(), "encode", {.layer = layer.index, .chunk = chunk});
    const View block = layer.saved.blocks[static_cast<size_t>(chunk)];
    layer.codec.encode(block_source(layer.inputs, i),
                       theta_of(layer.codec, layer.saved.theta, i),
                       scratch,
                       block.rows(0, layer.codec.layout().block_bytes()),
                       stream);
    stream.synchronize();
    exchange.send_forward(chunk);
  }
}

void ContextAttention::finish_forward(const LayerAttention& layer,
                                      const ChunksDone& done,
                                      Stream& stream) {
  ForwardPass pass{*this, layer, done, stream};
  backend_.fill(layer.saved.out, 0, stream);
  backend_.fill(layer.saved.lse, -std::numeric_limits<float>::infinity(), stream);
  pass.attend_owned();
  Flight& flight = flight_of(layer);
  flight.exchange->finish_forward([&](int chunk) {
    pass.attend_compressed(chunk);
    pass.report(owned().size(), chunk);
  });
  angles_.finish(flight.angles);
}

}  // namespace subring::attention
