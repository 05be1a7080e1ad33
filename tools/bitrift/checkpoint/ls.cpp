#include <map>
#include <memory>
#include <string>

#include <fmt/ranges.h>

#include "ckpt/reader.h"
#include "commands.h"
#include "output.h"

namespace bitrift::cli {
namespace {

struct ListingOptions {
  std::string file;
  bool json = false;
};

bool is_big_endian(const ckpt::TensorInfo& tensor) { return tensor.format && tensor.order == ByteOrder::big; }

record::Json tensor_json(const ckpt::TensorInfo& tensor, const FileList& files) {
  record::Json value = {{"path", tensor.path},           {"role", tensor.role},
                        {"dtype", tensor.dtype},         {"shape", tensor.shape},
                        {"elements", tensor.elements()}, {"storage", tensor.storage},
                        {"bytes", tensor.stored_bytes},  {"alterable", tensor.refusal.empty()}};
  if (tensor.format) value["byte_order"] = is_big_endian(tensor) ? "big" : "little";
  if (!tensor.layer.empty()) value["layer"] = tensor.layer;
  if (tensor.offset) value["offset"] = files.within(*tensor.offset);
  if (tensor.negated) value["negated"] = true;
  if (!tensor.alias_of.empty()) value["alias_of"] = tensor.alias_of;
  if (!tensor.refusal.empty()) value["refusal"] = tensor.refusal;
  if (!tensor.file.empty()) value["file"] = tensor.file;
  return value;
}

record::Json layers_to_json(const ckpt::LayerList& list) {
  record::Json layers = record::Json::array();
  for (const auto& layer : list.layers()) {
    layers.push_back({{"name", layer.name}, {"has_weight", layer.has_weight}});
  }
  return {{"order", list.order()}, {"list", std::move(layers)}};
}

/// "layout keras, 12 layers in the file's order, conv2d to dense_1"
std::string layout_line(const ckpt::Reader& reader) {
  const auto& layers = reader.layers().layers();
  const bool hdf5 = reader.format() == ckpt::FileFormat::hdf5;
  const std::size_t files = reader.files().parts.size();
  std::string text = (hdf5 ? std::string() : fmt::format("format {}, ", name_of(reader.format()))) +
                     (files == 0 ? std::string() : fmt::format("{}, ", counted(files, "file"))) + "layout " +
                     reader.layout();
  if (layers.empty()) return text + '\n';
  const bool stated = reader.layers().order() == "stated";
  return fmt::format("{}, {} in {} order, {} to {}\n", text, counted(layers.size(), "layer"),
                     stated ? "the file's" : "natural", layers.front().name, layers.back().name);
}

/// Number of each layer, as --layer takes it.
std::map<std::string, std::size_t, std::less<>> layer_numbers(const ckpt::Reader& reader) {
  std::map<std::string, std::size_t, std::less<>> numbers;
  for (const auto& layer : reader.layers().layers()) numbers.emplace(layer.name, numbers.size());
  return numbers;
}

void print_tensors(const ckpt::Reader& reader) {
  const bool several = reader.files().several();
  std::vector<std::string> head = {"path",  "role",    "layer", "dtype",
                                   "shape", "storage", "bytes", "not alterable because"};
  if (several) head.insert(head.end() - 1, "file");
  Table table(head);
  const auto numbers = layer_numbers(reader);
  std::uint64_t bytes = 0;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (tensor.alias_of.empty()) bytes += tensor.stored_bytes;
    const auto layer = numbers.find(tensor.layer);
    std::vector<std::string> cells = {
        tensor.path,
        tensor.role,
        layer == numbers.end() ? "" : std::to_string(layer->second),
        tensor.dtype + (is_big_endian(tensor) ? " big-endian" : "") + (tensor.negated ? " negated" : ""),
        fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
        tensor.storage + (tensor.alias_of.empty() ? "" : ", alias of " + tensor.alias_of),
        with_commas(tensor.stored_bytes),
        tensor.refusal};
    if (several) cells.insert(cells.end() - 1, tensor.file);
    table.add(std::move(cells));
  }
  print(table.text() +
        fmt::format("{}, {} bytes\n", counted(reader.tensors().size(), "tensor"), with_commas(bytes)) +
        layout_line(reader));
}

void list_tensors(const ListingOptions& options) {
  const ckpt::Reader reader(options.file);
  if (!options.json) return print_tensors(reader);
  record::Json tensors = record::Json::array();
  for (const ckpt::TensorInfo& tensor : reader.tensors())
    tensors.push_back(tensor_json(tensor, reader.files()));
  print_json({{"file", options.file},
              {"format", name_of(reader.format())},
              {"attributes", reader.attributes()},
              {"layout", reader.layout()},
              {"layers", layers_to_json(reader.layers())},
              {"tensors", std::move(tensors)}});
}

}  // namespace

void add_ls(CLI::App& app, ExitCode&) {
  const auto options = std::make_shared<ListingOptions>();
  CLI::App* command = app.add_subcommand("ls", "List the tensors of a checkpoint");
  command->add_option("FILE", options->file, checkpoint_file)->required()->type_name("");
  command->add_flag("--json", options->json, "print JSON instead of a table");
  command->footer(
      "Examples:\n  bitrift ls checkpoint.h5\n  bitrift ls model.safetensors\n  bitrift ls "
      "checkpoint-500\n\n" +
      std::string(exit_codes));
  command->callback([options] { list_tensors(*options); });
}

}  // namespace bitrift::cli
