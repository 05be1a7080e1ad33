// Data sets: labelled images and text, and the batches that training and evaluation take from them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataset/torch.h"

namespace bitrift::nn {

/// Rows of samples, on the CPU, in the requested order.
struct Batch {
  torch::Tensor inputs;   ///< float32 [rows, channels, height, width], or int64 [rows, context]
  torch::Tensor targets;  ///< int64 [rows], or [rows, context] with -100 for tokens that are not asked
};

/// A loaded data set. It does not change after loading; const calls may come from several threads at once.
class Dataset {
 public:
  virtual ~Dataset();
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  [[nodiscard]] std::int64_t train_size() const noexcept { return facts_.train_size; }
  [[nodiscard]] std::int64_t test_size() const noexcept { return facts_.test_size; }
  /// The shape of one sample: {channels, height, width} or {context}.
  [[nodiscard]] const std::vector<std::int64_t>& input_shape() const noexcept { return facts_.input_shape; }
  /// Labels or token ids are 0 .. classes() - 1.
  [[nodiscard]] std::int64_t classes() const noexcept { return facts_.classes; }
  /// The number of targets that are asked in a sample: 1; context for next-token text; the masked ones for
  /// masked text.
  [[nodiscard]] std::int64_t targets_per_sample() const noexcept { return facts_.targets_per_sample; }
  /// Whether batches take enough work (decoding, resizing, augmentation) to be prepared ahead by a thread.
  [[nodiscard]] bool costly() const noexcept { return facts_.costly; }

  /// Training samples by index, augmented or masked as a pure function of (seed, epoch, index): the same rows
  /// in another batch are the same bits. Throws Error(bad_input) for a row outside the set; for a folder also
  /// Error(bad_file | not_found | io) that names an image which can no longer be decoded.
  [[nodiscard]] virtual Batch train_batch(std::span<const std::int64_t> rows, std::uint64_t seed,
                                          std::int64_t epoch) const = 0;
  /// Test samples first .. last - 1, never augmented. Throws as train_batch does.
  [[nodiscard]] virtual Batch test_batch(std::int64_t first, std::int64_t last) const = 0;

 protected:
  struct Facts {
    std::int64_t train_size = 0, test_size = 0;
    std::vector<std::int64_t> input_shape;
    std::int64_t classes = 0;
    std::int64_t targets_per_sample = 1;
    bool costly = false;
  };
  explicit Dataset(Facts facts) : facts_(std::move(facts)) {}
  /// Throw Error(bad_input) for samples outside the set.
  void check_rows(std::span<const std::int64_t> rows) const;
  void check_range(std::int64_t first, std::int64_t last) const;

 private:
  Facts facts_;
};

}  // namespace bitrift::nn
