#include "nn/layer/pass.h"

#include <cmath>

#include "core/error.h"
#include "core/philox.h"

namespace bitrift::nn {

torch::Tensor dropout(const torch::Tensor& x, double p, const std::string& name, const Pass& pass) {
  if (!pass.training || p == 0) return x;
  const std::int64_t rows = x.size(0);
  const std::int64_t width = x.numel() / rows;
  if (static_cast<std::size_t>(rows) != pass.samples.size()) {
    fail(ErrorCode::internal, "dropout {}: {} rows, but {} sample numbers", name, rows, pass.samples.size());
  }
  const std::uint64_t key =
      random_u64(derive_key(pass.seed, "dropout/" + name), static_cast<std::uint64_t>(pass.step), 0);
  const auto threshold = static_cast<std::uint64_t>(std::llround(p * 0x1p32));
  const torch::Tensor kept = torch::empty({rows, width}, torch::kUInt8);
  auto* out = kept.data_ptr<std::uint8_t>();
  for (const std::int64_t sample : pass.samples) {
    for (std::int64_t e = 0; e < width; e += 2, out += 2) {
      const std::uint64_t bits =
          random_u64(key, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(e / 2));
      out[0] = (bits & 0xFFFFFFFFU) >= threshold ? 1 : 0;
      if (e + 1 == width) {
        ++out;
        break;
      }
      out[1] = (bits >> 32U) >= threshold ? 1 : 0;
    }
  }
  const torch::Tensor mask = kept.to(x.device()).to(x.scalar_type()).mul_(1 / (1 - p));
  return x * mask.view(x.sizes());
}

}  // namespace bitrift::nn
