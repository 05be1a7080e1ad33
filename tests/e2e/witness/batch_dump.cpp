// batch_dump KEY=VALUE...: loads a data set and writes a batch for Python to compare.
// Keys are those of `data` (lists with commas), classes and context of `model`, and seed, epoch, rows
// (commas), test (FIRST,LAST), out (a file). The file holds the inputs' bytes, then the targets'; standard
// output is JSON with their shapes.
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "dataset/dataset.h"
#include "dataset/load_dataset.h"

namespace {

using bitrift::nn::Batch;
using bitrift::record::DataSpec;
using bitrift::record::ModelSpec;
using Arguments = std::map<std::string, std::string>;

template <typename T>
std::vector<T> list_of(const std::string& text) {
  std::vector<T> values;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    std::istringstream one(part);
    one >> values.emplace_back();
  }
  return values;
}

template <typename T>
T value_of(const Arguments& arguments, const std::string& key, T otherwise) {
  const auto found = arguments.find(key);
  return found == arguments.end() ? otherwise : list_of<T>(found->second).at(0);
}

DataSpec description_of(const Arguments& arguments) {
  const auto number = [&](const char* key) { return value_of<std::int64_t>(arguments, key, 0); };
  const auto text = [&](const char* key) {
    return arguments.contains(key) ? arguments.at(key) : std::string();
  };
  DataSpec description;
  description.name = bitrift::parse_named<bitrift::record::DataName>(text("name"));
  description.path = text("path");
  description.resize = number("resize");
  description.crop = number("crop");
  description.channels = number("channels");
  description.mean = list_of<double>(text("mean"));
  description.std = list_of<double>(text("std"));
  description.crop_padding = number("crop_padding");
  description.random_crop = number("random_crop") != 0;
  description.flip = number("flip") != 0;
  description.vocabulary = text("vocabulary");
  description.test_fraction = value_of(arguments, "test_fraction", description.test_fraction);
  description.mask_fraction = value_of(arguments, "mask_fraction", 0.0);
  description.train_samples = number("train_samples");
  description.test_samples = number("test_samples");
  return description;
}

void write_tensor(std::ofstream& out, const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  out.write(static_cast<const char*>(dense.const_data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
}

void dump(const Arguments& arguments) {
  const ModelSpec model{.classes = value_of(arguments, "classes", 0),
                        .context = value_of(arguments, "context", 0)};
  const auto set = bitrift::nn::load_dataset(description_of(arguments), model);
  Batch batch;
  if (arguments.contains("test")) {
    const auto range = list_of<std::int64_t>(arguments.at("test"));
    batch = set->test_batch(range.at(0), range.at(1));
  } else {
    const auto rows = list_of<std::int64_t>(arguments.at("rows"));
    batch = set->train_batch(rows, value_of<std::uint64_t>(arguments, "seed", 0),
                             value_of<std::int64_t>(arguments, "epoch", 0));
  }
  std::ofstream out(arguments.at("out"), std::ios::binary);
  write_tensor(out, batch.inputs);
  write_tensor(out, batch.targets);
  fmt::print(R"({{"inputs": {}, "targets": {}, "train": {}, "test": {}, "classes": {}, "asked": {}}})",
             batch.inputs.sizes().vec(), batch.targets.sizes().vec(), set->train_size(), set->test_size(),
             set->classes(), set->targets_per_sample());
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t equals = text.find('=');
    if (equals == text.npos) {
      std::fputs("usage: batch_dump KEY=VALUE...\n", stderr);
      return 2;
    }
    arguments[text.substr(0, equals)] = text.substr(equals + 1);
  }
  try {
    dump(arguments);
  } catch (const bitrift::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
