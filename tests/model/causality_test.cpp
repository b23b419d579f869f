// Causality: changing token t changes no hidden state, and so no logit, before t.

#include <algorithm>

#include "model/harness.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::test;

namespace {

/// First position whose hidden state changes when the token at `position` does; seq_len when none.
int64_t first_change(const ModelCase& test, int64_t position, int num_ranks) {
  const std::vector<int32_t> labels = test.labels();
  std::vector<int32_t> tokens = test.tokens();
  const ModelResult before = run_model(test, tokens, labels, num_ranks);
  auto& token = tokens[static_cast<size_t>(position)];
  token = (token + 1) % static_cast<int32_t>(test.model.vocab_size);
  const ModelResult after = run_model(test, tokens, labels, num_ranks);
  const auto [a, b] =
      std::mismatch(before.hidden.begin(), before.hidden.end(), after.hidden.begin());
  return (a - before.hidden.begin()) / test.model.hidden_size;
}

}  // namespace

TEST_CASE("changing a token changes nothing before it") {
  ModelCase test;
  test.assignment = GENERATE(Assignment::contiguous, Assignment::zigzag);
  const auto kind = GENERATE(codec::RotationKind::none,
                             codec::RotationKind::taylor2,
                             codec::RotationKind::exact,
                             codec::RotationKind::expm,
                             codec::RotationKind::random);
  test.compression.rotation.kind = kind;
  test.compression.wire_dtype = GENERATE(FrameFormat::fp32, FrameFormat::int4);
  SECTION("codec none") {
    test.compression.codec = codec::Codec::none;
    test.compression.exact_local = GENERATE(true, false);
  }
  SECTION("codec latent, topk, quantize") {
    test.compression.codec =
        GENERATE(codec::Codec::latent, codec::Codec::topk, codec::Codec::quantize);
    test.compression.exact_local = GENERATE(true, false);
  }
  SECTION("angles of the chunk, exact at home") {}
  SECTION("angles of the previous chunk, exact at home") {
    test.compression.rotation.source = codec::RotationSource::previous_chunk;
  }
  SECTION("angles of the previous chunk, compressed at home") {
    test.compression.rotation.source = codec::RotationSource::previous_chunk;
    test.compression.exact_local = false;
  }
  for (int64_t position : {1, 7, 8, 13, 31}) {
    CAPTURE(position);
    CHECK(first_change(test, position, 2) == position);
  }
}

TEST_CASE("the paper's own form lets a token see the rest of its chunk") {
  ModelCase test;
  test.compression.exact_local = false;
  test.compression.rotation.kind = codec::RotationKind::taylor2;
  // Token 13 of chunk [8, 16) turns the subspace that token 8 reads.
  CHECK(first_change(test, 13, 2) == 8);
}
