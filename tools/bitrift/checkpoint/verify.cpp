#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "commands.h"
#include "integrity/verification.h"
#include "integrity/verification_json.h"
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

std::string seal_table(const integrity::SealCheck& seal) {
  Table table({"differs from the seal", "first byte", "bytes"});
  const auto ranges = damaged_ranges(seal);
  const auto name = [&](const std::string& file) {
    return file.empty() ? seal.head.files.root.filename().string() : file;
  };
  for (std::size_t i = 0; i < std::min(ranges.size(), most_shown); ++i)
    table.add({name(ranges[i].file), with_commas(ranges[i].first), with_commas(ranges[i].bytes)});
  std::string text = ranges.empty() ? "" : table.text();
  if (ranges.size() > most_shown)
    text += fmt::format("and {} more\n", with_commas(ranges.size() - most_shown));
  for (const integrity::ResizedFile& one : seal.resized) {
    text += one.bytes ? fmt::format("{}: has {} bytes, and had {} when it was sealed\n", name(one.name),
                                    with_commas(*one.bytes), with_commas(one.sealed_bytes))
                      : fmt::format("{}: is gone; it had {} bytes\n", name(one.name),
                                    with_commas(one.sealed_bytes));
  }
  return text;
}

/// What the seal says, in one line.
std::string seal_text(const integrity::SealCheck& seal) {
  if (!seal.unusable.empty()) return printable(seal.unusable) + "\n";
  const std::string blocks = counted(seal.head.shape.blocks(), "block");
  if (seal.sound()) {
    return fmt::format("{}: all {} are as they were sealed{}\n", seal.file.string(), blocks,
                       seal.seal_damaged ? "; the seal itself is damaged: seal again with --force" : "");
  }
  std::string text =
      fmt::format("{}: {} of {} differ", seal.file.string(), with_commas(seal.damaged.size()), blocks);
  if (!seal.flipped.empty()) text += fmt::format(", {} by one flipped bit", with_commas(seal.flipped.size()));
  return seal.repairable()
             ? text + "; they can be restored\n"
             : fmt::format("{}; {} of them have too little parity\n", text, with_commas(seal.lost));
}

bool any_sum_damaged(const Verification& found) {
  return std::any_of(found.parts.begin(), found.parts.end(),
                     [](const SummedPart& part) { return !part.damage.empty(); });
}

/// What the sums say, in one line; "" where a seal says it all.
std::string sums_line(const VerifyOptions& options, const Verification& found) {
  const auto damaged = static_cast<std::uint64_t>(std::count_if(
      found.parts.begin(), found.parts.end(), [](const auto& part) { return !part.damage.empty(); }));
  if (damaged > 0) {
    return fmt::format("{}: damaged: {} of {} do not fit\n", options.file, with_commas(damaged),
                       counted(found.parts.size(), "sum"));
  }
  if (!found.damage.empty()) return fmt::format("{}: damaged\n", options.file);
  if (!found.parts.empty())
    return fmt::format("{}: sound: {} fit\n", options.file, counted(found.parts.size(), "sum"));
  return found.seal ? "" : fmt::format("{}: has no sums, so damage cannot be seen\n", options.file);
}

void print_verification(const VerifyOptions& options, const Verification& found) {
  std::string text = found.tensors.empty() ? "" : protection_table(found);
  if (!found.sound() && (!found.parts.empty() || !found.tensors.empty()))
    text += (text.empty() ? "" : "\n") + damage_table(found);
  if (found.seal && !found.seal->sound() && found.seal->unusable.empty())
    text += (text.empty() ? "" : "\n") + seal_table(*found.seal);
  if (!found.damage.empty()) text += "the tensors cannot be listed: " + printable(found.damage) + "\n";
  if (!found.other.empty()) text += "no tensors are listed: " + printable(found.other) + "\n";
  text += sums_line(options, found);
  if (found.seal) text += seal_text(*found.seal);
  const bool rebuilt = found.seal && found.seal->repairable();
  const bool flips = !found.several && (!found.damage.empty() || any_sum_damaged(found));
  if (rebuilt || flips) {
    text += fmt::format("`bitrift repair {} -o FIXED` {}\n", options.file,
                        rebuilt ? "writes a restored copy" : "looks for flipped bits");
  }
  print(text);
}

}  // namespace

void add_verify(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Check the sums that a checkpoint carries, and its seal: is a byte of it damaged?");
  command->add_option("FILE", options->file, checkpoint_file)->required()->type_name("");
  command->add_flag("--json", options->json, "print JSON instead of a table: every sum, and every tensor");
  command->footer(
      "Checks the CRC-32 of zip members (PyTorch, npz), Fletcher-32 and deflated chunks of HDF5, and the "
      "CRC-32C\n"
      "of tensors in files of bitrift, and all blocks if there is a seal (see bitrift seal --help). Says "
      "which "
      "tensors\n"
      "nothing protects.\n"
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
