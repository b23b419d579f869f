#include "bench.hpp"

namespace subring::bench {
namespace {

constexpr int64_t kCoordinates = int64_t{1} << 22;  // 16 MiB in f32: larger than a core's caches

void bench_width(Session& session, Ceilings& ceilings, int64_t width) {
  const int64_t rows = kCoordinates / width;
  Buffer x({rows, width}), y({rows, width});
  std::vector<std::byte> memory(4 * kCoordinates);
  Backend& run = *session.backend;
  Stream& stream = *session.stream;
  const auto measure = [&](const std::string& what, FrameFormat format, auto&& body) {
    const auto bytes = static_cast<double>(4 * kCoordinates + frame_bytes(format, rows, width));
    print_bytes(fmt::format("{} {}, width {}", what, to_string(format), width),
                bytes,
                time_against(
                    session, [&] { ceilings.copy(); }, body),
                ceilings.copy_bytes());
  };
  for (const auto& [format, name] : enum_names(FrameFormat{})) {
    const FrameFormat f = format;
    const View frame{memory.data(), DType::u8, {frame_bytes(f, rows, width)}};
    measure("encode", f, [&] { run.encode_frame(f, {Rounding::nearest, 0}, x, frame, stream); });
    if (f != FrameFormat::fp32) {
      measure("encode, stochastic,", f, [&] {
        run.encode_frame(f, {Rounding::stochastic, 1}, x, frame, stream);
      });
    }
    measure("decode", f, [&] { run.decode_frame(f, frame, y, Write::overwrite, stream); });
  }
}

}  // namespace

void add_frames_bench(CLI::App& program, Session& session) {
  CLI::App* command = program.add_subcommand(
      "frames",
      "wire formats by the width of a row: bytes read and written, against a copy of memory");
  command->callback([&session] {
    print_header(session);
    Ceilings ceilings(session);
    for (const int64_t width : {8, 16, 32, 64, 256, 1024}) bench_width(session, ceilings, width);
  });
}

}  // namespace subring::bench
