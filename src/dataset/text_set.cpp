#include "dataset/text_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/philox.h"
#include "dataset/image_set.h"
#include "dataset/inflate.h"
#include "dataset/vocabulary.h"

namespace bitrift::nn {
namespace {

constexpr std::size_t max_text_bytes = std::size_t{1} << 31;

struct Cut {
  std::int64_t train = 0, test = 0;  // tokens
};

Cut cut_of(const record::DataSpec& spec, std::int64_t tokens) {
  const std::int64_t test = std::llround(spec.test_fraction * static_cast<double>(tokens));
  return {tokens - test, test};
}

// Next-token samples need one token after the last.
std::int64_t samples_in(const record::DataSpec& spec, std::int64_t context, std::int64_t tokens,
                        const char* split) {
  const std::int64_t extra = spec.mask_fraction > 0 ? 0 : 1;
  const std::int64_t samples = std::max<std::int64_t>(0, tokens - extra) / context;
  if (samples == 0) {
    fail_at(ErrorCode::bad_input, "model.context",
            "the {} set has {} tokens, too few for a sample of model.context {}: take a longer text", split,
            tokens, context);
  }
  return samples;
}

std::int64_t masked_positions(const record::DataSpec& spec, std::int64_t context) {
  return std::max<std::int64_t>(1, std::llround(spec.mask_fraction * static_cast<double>(context)));
}

// The draws of one epoch's masks: pure functions of (seed, epoch, sample, position), see docs/data.md.
class Masking {
 public:
  Masking(std::uint64_t seed, std::int64_t epoch, std::int64_t context, std::int64_t asked,
          std::int64_t vocabulary)
      : place_(key(seed, "mask/place", epoch)),
        rule_(key(seed, "mask/rule", epoch)),
        token_(key(seed, "mask/token", epoch)),
        context_(context),
        asked_(asked),
        vocabulary_(vocabulary) {}

  // tokens: the sample; targets: what the model must predict, filled in here.
  void apply(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) const {
    const std::uint64_t first = static_cast<std::uint64_t>(sample) * static_cast<std::uint64_t>(context_);
    std::vector<std::pair<std::uint64_t, std::int64_t>> order;
    for (std::int64_t p = 0; p < context_; ++p) {
      order.emplace_back(random_u64(place_, first + static_cast<std::uint64_t>(p), 0), p);
    }
    std::nth_element(order.begin(), order.begin() + (asked_ - 1), order.end());
    std::fill_n(targets, context_, std::int64_t{-100});
    for (std::int64_t i = 0; i < asked_; ++i) {
      const std::int64_t position = order[static_cast<std::size_t>(i)].second;
      const std::uint64_t element = first + static_cast<std::uint64_t>(position);
      targets[position] = tokens[position];
      const double which = random_unit(rule_, element, 0);
      if (which < 0.8) {
        tokens[position] = vocabulary_;
      } else if (which < 0.9) {
        tokens[position] = static_cast<std::int64_t>(
            random_below(token_, element, 0, static_cast<std::uint64_t>(vocabulary_)));
      }
    }
  }

 private:
  static std::uint64_t key(std::uint64_t seed, std::string_view purpose, std::int64_t epoch) {
    return random_u64(derive_key(seed, purpose), static_cast<std::uint64_t>(epoch), 0);
  }
  std::uint64_t place_, rule_, token_;
  std::int64_t context_, asked_, vocabulary_;
};

}  // namespace

TextSet::TextSet(const record::DataSpec& spec, std::int64_t context, const torch::Tensor& tokens,
                 std::int64_t vocabulary_size)
    : Dataset(
          {.train_size = samples_taken(
               spec.train_samples, samples_in(spec, context, cut_of(spec, tokens.size(0)).train, "training"),
               "data.train_samples"),
           .test_size = samples_taken(spec.test_samples,
                                      samples_in(spec, context, cut_of(spec, tokens.size(0)).test, "test"),
                                      "data.test_samples"),
           .input_shape = {context},
           .classes = vocabulary_size + (spec.mask_fraction > 0 ? 1 : 0),
           .targets_per_sample = spec.mask_fraction > 0 ? masked_positions(spec, context) : context,
           .costly = spec.mask_fraction > 0}),
      masks_(spec.mask_fraction > 0) {
  const Cut cut = cut_of(spec, tokens.size(0));
  train_ = tokens.narrow(0, 0, cut.train);
  test_ = tokens.narrow(0, cut.train, cut.test);
}

Batch TextSet::batch_of(const torch::Tensor& tokens, std::span<const std::int64_t> rows, std::uint64_t seed,
                        std::int64_t epoch) const {
  const std::int64_t context = input_shape()[0];
  const torch::Tensor index = torch::from_blob(const_cast<std::int64_t*>(rows.data()),
                                               {static_cast<std::int64_t>(rows.size())}, torch::kInt64);
  const auto samples_from = [&](std::int64_t first) {
    const std::int64_t count = (tokens.size(0) - first) / context;
    return tokens.narrow(0, first, count * context)
        .view({count, context})
        .index_select(0, index)
        .to(torch::kInt64);
  };
  Batch batch;
  batch.inputs = samples_from(0);
  if (!masks_) {
    batch.targets = samples_from(1);
    return batch;
  }
  batch.targets = torch::empty_like(batch.inputs);
  const Masking masking(seed, epoch, context, targets_per_sample(), classes() - 1);
  auto* inputs = batch.inputs.data_ptr<std::int64_t>();
  auto* targets = batch.targets.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < rows.size(); ++i, inputs += context, targets += context) {
    masking.apply(rows[i], inputs, targets);
  }
  return batch;
}

Batch TextSet::train_batch(std::span<const std::int64_t> rows, std::uint64_t seed, std::int64_t epoch) const {
  check_rows(rows);
  return batch_of(train_, rows, seed, epoch);
}

Batch TextSet::test_batch(std::int64_t first, std::int64_t last) const {
  check_range(first, last);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(last - first));
  std::iota(rows.begin(), rows.end(), first);
  return batch_of(test_, rows, 0, 0);
}

std::unique_ptr<Dataset> load_text(const record::DataSpec& spec, std::int64_t context,
                                   const std::filesystem::path& path, const std::string& hint) {
  if (!std::filesystem::is_regular_file(path)) {
    fail_at(ErrorCode::not_found, "data.path", "{} does not exist: {}", path.string(), hint);
  }
  const Vocabulary vocabulary =
      spec.vocabulary.empty() ? Vocabulary() : Vocabulary(std::filesystem::path(spec.vocabulary));
  const std::string text = read_inflated(path, max_text_bytes);
  torch::Tensor tokens;
  if (vocabulary.bytes()) {
    tokens = torch::empty({static_cast<std::int64_t>(text.size())}, torch::kUInt8);
    if (!text.empty()) std::memcpy(tokens.data_ptr(), text.data(), text.size());
  } else {
    const std::vector<std::int32_t> ids = vocabulary.encode(text, path);
    tokens = torch::empty({std::ssize(ids)}, torch::kInt32);
    std::copy(ids.begin(), ids.end(), tokens.data_ptr<std::int32_t>());
  }
  return std::make_unique<TextSet>(spec, context, tokens, vocabulary.size());
}

}  // namespace bitrift::nn
