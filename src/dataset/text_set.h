// A data set of text: samples of tokens that follow each other, for next-token and for masked-token
// objectives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "dataset/dataset.h"
#include "dataset/torch.h"
#include "spec/training_parts.h"

namespace bitrift::nn {

/// Samples of `context` tokens: sample i is tokens [i context, (i + 1) context) of its split. Next-token:
/// targets are the next tokens, all asked. Masked-token (BERT, Devlin et al. 2018, section 3.1): max(1,
/// round(mask_fraction context)) drawn positions are asked; of these 80 % hold the mask token (the last id),
/// 10 % a random token, 10 % their own.
class TextSet : public Dataset {
 public:
  /// tokens: int32 or uint8 [n], ids below vocabulary_size. Throws Error(bad_input) when a split has no
  /// sample.
  TextSet(const record::DataSpec& spec, std::int64_t context, const torch::Tensor& tokens,
          std::int64_t vocabulary_size);

  [[nodiscard]] Batch train_batch(std::span<const std::int64_t> rows, std::uint64_t seed,
                                  std::int64_t epoch) const override;
  [[nodiscard]] Batch test_batch(std::int64_t first, std::int64_t last) const override;

 private:
  [[nodiscard]] Batch batch_of(const torch::Tensor& tokens, std::span<const std::int64_t> rows,
                               std::uint64_t seed, std::int64_t epoch) const;

  bool masks_;
  torch::Tensor train_, test_;
};

/// Reads the text (gzipped or not) at `path`, and its tokens by the spec's vocabulary. Throws as
/// read_inflated and Vocabulary do, and Error(not_found) with the hint.
[[nodiscard]] std::unique_ptr<Dataset> load_text(const record::DataSpec& spec, std::int64_t context,
                                                 const std::filesystem::path& path, const std::string& hint);

}  // namespace bitrift::nn
