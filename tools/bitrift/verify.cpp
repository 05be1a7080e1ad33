#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "commands.h"
#include "integrity/verification.h"
#include "output.h"

namespace bitrift::cli {
namespace {

using integrity::SummedPart;
using integrity::TensorState;
using integrity::Verification;
using integrity::VerifiedTensor;

struct VerifyOptions {
  std::string file;
  bool json = false;
};

std::string sums_text(const VerifiedTensor& tensor) {
  std::vector<std::string> names;
  for (const integrity::SumKind kind : tensor.sums) names.emplace_back(name_of(kind));
  if (tensor.bytes == 0) return "no bytes";
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

/// One line for all tensors that the same sums protect and that are in the same state.
std::string protection_table(const Verification& found) {
  std::map<std::pair<TensorState, std::string>, std::pair<std::uint64_t, std::uint64_t>> groups;
  for (const VerifiedTensor& tensor : found.tensors) {
    auto& [tensors, bytes] = groups[{tensor.state, sums_text(tensor)}];
    ++tensors;
    bytes += tensor.bytes;
  }
  Table table({"protected by", "tensors", "bytes", "state"});
  for (const auto& [group, sizes] : groups) {
    table.add({group.second, with_commas(sizes.first), with_commas(sizes.second),
               std::string(name_of(group.first))});
  }
  return table.text();
}

std::string damage_table(const Verification& found) {
  Table table({"damaged", "sum", "what is wrong"});
  for (const SummedPart& part : found.parts) {
    if (!part.damage.empty()) table.add({part.name, std::string(name_of(part.kind)), part.damage});
  }
  for (const VerifiedTensor& tensor : found.tensors) {
    if (tensor.state == TensorState::damaged) table.add({"tensor " + tensor.path, sums_text(tensor), ""});
  }
  return table.text();
}

void print_verification(const VerifyOptions& options, const Verification& found) {
  std::string text = found.tensors.empty() ? "" : protection_table(found);
  if (!found.parts.empty() && !found.sound()) text += (text.empty() ? "" : "\n") + damage_table(found);
  if (!found.damage.empty()) text += "the tensors cannot be listed: " + printable(found.damage) + "\n";
  const auto damaged = static_cast<std::uint64_t>(std::count_if(
      found.parts.begin(), found.parts.end(), [](const auto& part) { return !part.damage.empty(); }));
  if (found.sound()) {
    text +=
        fmt::format("{}: {}\n", options.file,
                    found.parts.empty() ? "has no sums, so damage cannot be seen"
                                        : fmt::format("sound: {} fit", counted(found.parts.size(), "sum")));
  } else {
    text += damaged == 0 ? fmt::format("{}: damaged\n", options.file)
                         : fmt::format("{}: damaged: {} of {} do not fit\n", options.file,
                                       with_commas(damaged), counted(found.parts.size(), "sum"));
    if (!found.several)
      text += fmt::format("`bitrift repair {} -o FIXED` looks for flipped bits\n", options.file);
  }
  print(text);
}

}  // namespace

void add_verify(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      app.add_subcommand("verify", "Check the sums that a checkpoint carries: is a byte of it damaged?");
  command->add_option("FILE", options->file, checkpoint_file)->required()->type_name("");
  command->add_flag("--json", options->json, "print JSON instead of a table: every sum, and every tensor");
  command->footer(
      "Checks the CRC-32 of zip members (PyTorch, npz), Fletcher-32 and deflated chunks of HDF5, and the "
      "CRC-32C\n"
      "of tensors in files of bitrift, and says which tensors nothing protects.\n"
      "Examples:\n  bitrift verify model.pt\n  bitrift verify checkpoint.h5 --json\n\n"
      "Exit codes: 0 sound, 1 damaged, 2 usage or input error, 3 internal error in bitrift");
  command->callback([options, &exit_code] {
    const Verification found = integrity::verify(options->file);
    if (options->json) {
      record::Json value = {{"file", options->file}};
      value.update(integrity::to_json(found));
      print_json(value);
    } else {
      print_verification(*options, found);
    }
    exit_code.value = found.sound() ? 0 : 1;
  });
}

}  // namespace bitrift::cli
