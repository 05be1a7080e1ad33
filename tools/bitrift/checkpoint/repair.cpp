#include "integrity/repair.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "core/error.h"
#include "core/file.h"
#include "core/named_enum.h"
#include "inject/manifest/manifest_text.h"
#include "integrity/verification.h"
#include "output.h"
#include "record/provenance.h"

namespace bitrift::cli {
namespace {

using integrity::ExplainedPart;
using integrity::RepairPlan;

/// How a repair ended.
enum class RepairState { sound, explained, repaired, not_repaired };
constexpr EnumNames<4> names_of(RepairState) {
  return {"state of a repair", {"sound", "explained", "repaired", "not_repaired"}};
}

struct RepairOptions {
  std::string file, output, manifest;
  bool json = false, dry_run = false;
};

std::string percent(double share) {
  return share < 1e-4 ? fmt::format("{:.0e}", share) : fmt::format("{:.2g} %", 100 * share);
}

std::string bits_text(const std::vector<integrity::FileBit>& bits) {
  std::vector<std::string> texts(bits.size());
  std::transform(bits.begin(), bits.end(), texts.begin(), [](const integrity::FileBit& bit) {
    return fmt::format("bit {} of byte {}", bit.bit, with_commas(bit.offset));
  });
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string parts_table(const RepairPlan& plan) {
  Table table({"damaged", "sum", "explained by flipping", "chance for other damage"});
  for (const ExplainedPart& part : plan.parts) {
    const auto& found = part.explanation;
    table.add({part.name, part.kind ? std::string(name_of(*part.kind)) : "",
               found.failure.empty() ? bits_text(found.bits) : "nothing: " + found.failure,
               found.chance ? percent(*found.chance) : ""});
  }
  return table.text();
}

std::string faults_table(const inject::Manifest& manifest) {
  Table table({"tensor", "element", "bits", "before", "repaired"});
  std::size_t count = 0;
  for (const record::AppliedFault& fault : manifest.plan.faults()) {
    if (++count > most_shown) continue;
    table.add({fault.tensor.empty() ? fault.structure : fault.tensor, std::to_string(fault.element),
               fmt::format("{}", fmt::join(fault.bits, ",")),
               inject::value_text(fault.dtype, fault.old_pattern),
               inject::value_text(fault.dtype, fault.new_pattern)});
  }
  return table.text() +
         (count > most_shown ? fmt::format("and {} more\n", with_commas(count - most_shown)) : "");
}

std::string seal_line(const integrity::SealCheck& seal) {
  std::string text =
      fmt::format("{}: {} of {} are restored", seal.file.string(), with_commas(seal.damaged.size()),
                  counted(seal.head.shape.blocks(), "block"));
  if (!seal.flipped.empty())
    text += fmt::format(", {} of them by one flipped bit", with_commas(seal.flipped.size()));
  if (!seal.resized.empty())
    text += fmt::format("; {} get their size back", counted(seal.resized.size(), "file"));
  return text + "\n";
}

record::Json part_json(const ExplainedPart& part) {
  record::Json bits = record::Json::array();
  for (const auto& bit : part.explanation.bits) bits.push_back({{"offset", bit.offset}, {"bit", bit.bit}});
  record::Json value = {{"part", part.name}, {"bits", std::move(bits)}};
  if (part.kind) value["sum"] = name_of(*part.kind);
  if (part.explanation.chance) value["chance_for_other_damage"] = *part.explanation.chance;
  if (!part.explanation.failure.empty()) value["failure"] = part.explanation.failure;
  return value;
}

/// A copy that was written: its flips, or why they are not listed.
struct Written {
  std::optional<inject::Manifest> manifest;
  std::string no_manifest;
};

void report_json(const RepairOptions& options, RepairState state, const RepairPlan& plan,
                 const Written* written) {
  record::Json parts = record::Json::array();
  for (const ExplainedPart& part : plan.parts) parts.push_back(part_json(part));
  record::Json value = {{"file", options.file}, {"state", name_of(state)}, {"parts", std::move(parts)}};
  if (plan.seal) {
    value["seal"] = {{"file", plan.seal->file.string()},
                     {"restored_blocks", plan.seal->damaged.size()},
                     {"resized_files", plan.seal->resized.size()}};
  }
  if (written != nullptr) {
    value["output"] = options.output;
    if (written->manifest) {
      value["manifest"] = options.manifest;
      value["faults"] = record::Json::array();
      for (const auto& fault : written->manifest->plan.faults())
        value["faults"].push_back(inject::describe_fault(fault));
    } else {
      value["no_manifest"] = written->no_manifest;
    }
  }
  if (!plan.structure.empty()) value["damage"] = plan.structure;
  print_json(value);
}

void report(const RepairOptions& options, RepairState state, const RepairPlan& plan, const Written* written) {
  if (options.json) return report_json(options, state, plan, written);
  std::string text = plan.parts.empty() ? "" : parts_table(plan);
  if (plan.seal) text += seal_line(*plan.seal);
  switch (state) {
    case RepairState::sound:
      text += fmt::format("{}: every sum fits; nothing was written\n", options.file);
      break;
    case RepairState::explained:
      text += fmt::format("{}: can be repaired; nothing was written\n", options.file);
      break;
    case RepairState::not_repaired:
      if (!plan.structure.empty()) text += printable(plan.structure) + "\n";
      text += fmt::format("{}: cannot be repaired; nothing was written\n", options.file);
      break;
    case RepairState::repaired:
      if (written->manifest) {
        const bool many = plan.seal && written->manifest->plan.faults().size() > most_shown;
        text += (many ? "" : "\n" + faults_table(*written->manifest)) +
                fmt::format("{}: repaired, and {}; {} lists the flips\n", options.output,
                            plan.seal ? "as it was sealed" : "every sum fits", options.manifest);
      } else {
        text += fmt::format("{}: repaired, and as it was sealed; there is no manifest: {}\n", options.output,
                            written->no_manifest);
      }
      break;
  }
  print(text);
}

void write(const RepairOptions& options, const RepairPlan& plan) {
  // Its bytes are on the disk before the copy has its name; its own name appears after that.
  PendingFile pending(options.manifest);
  Written written;
  written.no_manifest =
      integrity::write_repaired(options.file, plan, options.output, [&](inject::Manifest& manifest) {
        manifest.provenance = record::provenance(command_line());
        const std::string text = inject::manifest_text(manifest);
        write_at(open_file(pending.path(), O_WRONLY), text.data(), text.size(), 0, options.manifest);
        written.manifest = std::move(manifest);
      });
  if (written.manifest) pending.commit();
  report(options, RepairState::repaired, plan, &written);
}

int repair(RepairOptions options) {
  if (options.output.empty() != options.dry_run)
    fail(ErrorCode::bad_input, "give -o FIXED, the file to write, or --dry-run");
  if (options.manifest.empty()) options.manifest = options.output + ".manifest.json";
  const RepairPlan plan = integrity::plan_repair(options.file, integrity::verify(options.file));
  if (plan.sound) {
    report(options, RepairState::sound, plan, nullptr);
    return 0;
  }
  if (!plan.complete()) {
    report(options, RepairState::not_repaired, plan, nullptr);
    return 1;
  }
  if (options.dry_run) {
    report(options, RepairState::explained, plan, nullptr);
  } else {
    write(options, plan);
  }
  return 0;
}

}  // namespace

void add_repair(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<RepairOptions>();
  CLI::App* command = app.add_subcommand("repair", "Put a damaged checkpoint right, by its seal or its sums");
  command
      ->add_option("FILE", options->file,
                   "HDF5, safetensors, npz, PyTorch (.pt) or Keras (.keras) file, or any file or folder with "
                   "a seal; never written to")
      ->required()
      ->type_name("");
  command->add_option("-o,--output", options->output, "write the repaired copy to this file or folder")
      ->type_name("FILE");
  command
      ->add_option("--manifest", options->manifest,
                   "write the flips to this file, for inject --replay (default: OUTPUT.manifest.json)")
      ->type_name("FILE");
  command->add_flag("--dry-run", options->dry_run, "print what would be flipped; write nothing");
  command->add_flag("--json", options->json, "print JSON instead of a table");
  command->footer(
      "With a seal (bitrift seal), restores the blocks that differ from it. Otherwise, or where its parity "
      "is "
      "too little:\n"
      "where a sum does not fit, looks for the one bit (or the two bits of a word) whose flipping makes it "
      "fit.\n"
      "Writes nothing if several would, or none, or if a sum of the repaired copy does not fit. Other damage "
      "may\n"
      "look like a flipped bit; the table says how likely that is.\n"
      "Examples:\n  bitrift repair model.pt -o fixed.pt\n  bitrift repair checkpoint.h5 --dry-run\n\n"
      "Exit codes: 0 repaired, or nothing to repair, 1 cannot be repaired, 2 usage or input error, 3 "
      "internal "
      "error in bitrift");
  command->callback([options, &exit_code] { exit_code.value = repair(*options); });
}

}  // namespace bitrift::cli
