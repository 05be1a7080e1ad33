#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "ckpt/compare.h"
#include "commands.h"
#include "inject/manifest/manifest.h"
#include "output.h"

namespace bitrift::cli {
namespace {

struct DiffOptions {
  std::string first, second;
  bool json = false;
};

bool has_patterns(const ckpt::TensorDifference& difference) {
  return difference.kind == "values" && number_format(difference.dtype).has_value();
}

std::string hex(const ckpt::TensorDifference& difference, std::uint64_t pattern) {
  const auto format = number_format(difference.dtype);
  return fmt::format("0x{:0{}x}", pattern, format->bytes * 2);
}

record::Json difference_json(const ckpt::TensorDifference& difference) {
  record::Json value = {{"path", difference.path},         {"kind", difference.kind},
                        {"role", difference.role},         {"dtype", difference.dtype},
                        {"elements", difference.elements}, {"bits", difference.bits}};
  if (!difference.detail.empty()) value["detail"] = difference.detail;
  if (difference.kind == "values") value["first_element"] = difference.first_element;
  if (has_patterns(difference)) {
    value["first_old"] = hex(difference, difference.first_old);
    value["first_new"] = hex(difference, difference.first_new);
  }
  return value;
}

std::string what_differs(const ckpt::TensorDifference& difference) {
  if (has_patterns(difference)) {
    return fmt::format("element {}: {} -> {} ({} -> {})", difference.first_element,
                       hex(difference, difference.first_old), hex(difference, difference.first_new),
                       inject::value_text(difference.dtype, difference.first_old),
                       inject::value_text(difference.dtype, difference.first_new));
  }
  std::string kind = difference.kind == "values" ? "" : difference.kind;
  std::replace(kind.begin(), kind.end(), '_', ' ');
  if (difference.detail.empty()) return kind;
  return kind.empty() ? difference.detail : kind + ": " + difference.detail;
}

void print_differences(const std::vector<ckpt::TensorDifference>& differences) {
  Table table({"tensor", "elements", "bits", "first difference"});
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bits = 0;
  for (const ckpt::TensorDifference& difference : differences) {
    // Stored checksums follow the values.
    if (difference.role != "checksum") {
      ++tensors;
      elements += difference.elements;
      bits += difference.bits;
    }
    table.add({difference.path, with_commas(difference.elements), with_commas(difference.bits),
               what_differs(difference)});
  }
  print(table.text() + fmt::format("{} {}: {}, {}{}\n", counted(tensors, "tensor"),
                                   tensors == 1 ? "differs" : "differ", counted(elements, "element"),
                                   counted(bits, "bit"),
                                   tensors < differences.size() ? "; stored checksums are not counted" : ""));
}

int compare_files(const DiffOptions& options) {
  const auto differences = ckpt::compare(options.first, options.second);
  if (options.json) {
    record::Json list = record::Json::array();
    for (const auto& difference : differences) list.push_back(difference_json(difference));
    print_json({{"first", options.first}, {"second", options.second}, {"differences", std::move(list)}});
  } else if (differences.empty()) {
    print("no tensor differs\n");
  } else {
    print_differences(differences);
  }
  return differences.empty() ? 0 : 1;
}

}  // namespace

void add_diff(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand("diff", "Compare two checkpoints tensor by tensor, bit by bit");
  command->add_option("A", options->first, std::string("first file: ") + checkpoint_file)
      ->required()
      ->type_name("");
  command->add_option("B", options->second, "second file, of any of these formats")
      ->required()
      ->type_name("");
  command->add_flag("--json", options->json, "print JSON instead of a table");
  command->footer(
      "Compares values, not how they are stored.\n"
      "Example:\n  bitrift diff before.h5 after.h5\n\n"
      "Exit codes: 0 equal, 1 different, 2 usage or input error, 3 internal error in bitrift");
  command->callback([options, &exit_code] { exit_code.value = compare_files(*options); });
}

}  // namespace bitrift::cli
