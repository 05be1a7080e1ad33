#include <memory>
#include <string>

#include <fmt/ranges.h>

#include "ckpt/reader.h"
#include "commands.h"
#include "output.h"

namespace bitrift::cli {
namespace {

struct Options {
  std::string file;
  bool json = false;
};

bool is_big_endian(const ckpt::TensorInfo& tensor) {
  return tensor.format && tensor.format->order == ByteOrder::big;
}

record::Json to_json(const ckpt::TensorInfo& tensor) {
  record::Json value = {{"path", tensor.path},           {"role", tensor.role},
                        {"dtype", tensor.dtype},         {"shape", tensor.shape},
                        {"elements", tensor.elements()}, {"storage", tensor.storage},
                        {"bytes", tensor.stored_bytes},  {"alterable", tensor.refusal.empty()}};
  if (tensor.format) value["byte_order"] = is_big_endian(tensor) ? "big" : "little";
  if (tensor.offset) value["offset"] = *tensor.offset;
  if (!tensor.refusal.empty()) value["refusal"] = tensor.refusal;
  return value;
}

void print_table(const ckpt::Reader& reader) {
  Table table({"path", "role", "dtype", "shape", "storage", "bytes", "not alterable because"});
  std::uint64_t bytes = 0;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    bytes += tensor.stored_bytes;
    table.add({tensor.path, tensor.role, tensor.dtype + (is_big_endian(tensor) ? " big-endian" : ""),
               fmt::format("[{}]", fmt::join(tensor.shape, ", ")), tensor.storage,
               with_commas(tensor.stored_bytes), tensor.refusal});
  }
  print(table.text() +
        fmt::format("{}, {} bytes\n", counted(reader.tensors().size(), "tensor"), with_commas(bytes)));
}

void list(const Options& options) {
  const ckpt::Reader reader(options.file);
  if (!options.json) return print_table(reader);
  record::Json tensors = record::Json::array();
  for (const ckpt::TensorInfo& tensor : reader.tensors()) tensors.push_back(to_json(tensor));
  print_json({{"file", options.file}, {"attributes", reader.attributes()}, {"tensors", std::move(tensors)}});
}

}  // namespace

void add_ls(CLI::App& app, ExitCode&) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ls", "List the tensors of a checkpoint");
  command->add_option("FILE", options->file, "any HDF5 file")->required()->type_name("");
  command->add_flag("--json", options->json, "print JSON instead of a table");
  command->footer("Example:\n  bitrift ls checkpoint.h5");
  command->callback([options] { list(*options); });
}

}  // namespace bitrift::cli
