#include <algorithm>
#include <memory>
#include <string>

#include "commands.h"
#include "core/byte_size.h"
#include "integrity/seal_checkpoint.h"
#include "output.h"

namespace bitrift::cli {
namespace {

using integrity::MadeSeal;
using integrity::SealShape;

struct SealOptions {
  std::string file;
  integrity::SealOptions seal;
  bool unchecked = false, json = false;
};

void print_seal(const SealOptions& options, const MadeSeal& made) {
  const SealShape& shape = made.head.shape;
  const std::uint64_t burst = (shape.parity_blocks() - 1) * integrity::seal_block_bytes + 1;
  print(fmt::format(
      "{}: {} for {} of {}\n"
      "restores {} of 4 KiB in each of {} of {}, so {} bytes in a row anywhere; and single flipped bits\n",
      made.file.string(), byte_size_text(made.bytes), byte_size_text(shape.bytes), options.file,
      counted(shape.parity_rows, "block"), counted(shape.stripes(), "stripe"),
      std::min<std::uint64_t>(shape.data_rows, shape.blocks()), with_commas(std::min(burst, shape.bytes))));
}

}  // namespace

void add_seal(CLI::App& app) {
  const auto options = std::make_shared<SealOptions>();
  CLI::App* command =
      app.add_subcommand("seal", "Write parity beside a checkpoint, so that lost blocks can be restored");
  command
      ->add_option("PATH", options->file, "any file, or a folder with all files in it; the seal is PATH.seal")
      ->required()
      ->type_name("");
  command
      ->add_option("--percent", options->seal.percent,
                   "parity, in percent of the bytes: 0.4 to 100; digests take 0.4 % more")
      ->capture_default_str()
      ->type_name("NUMBER");
  command->add_flag("--force", options->seal.replace, "replace the seal that is there");
  command->add_flag("--unchecked", options->unchecked,
                    "seal the bytes as they are, even if the checkpoint's own sums do not fit");
  command->add_flag("--json", options->json, "print JSON instead of text");
  command->footer(
      "Afterwards `bitrift verify PATH` finds every damaged block, and `bitrift repair PATH -o FIXED` "
      "restores "
      "as\n"
      "many as the parity covers: flipped bits, bursts, zeroed pages, a lost end, a lost file.\n"
      "Examples:\n  bitrift seal model.safetensors\n  bitrift seal checkpoint-500 --percent 5\n\n"
      "Exit codes: 0 sealed, 2 usage or input error, 3 internal error in bitrift");
  command->callback([options] {
    const MadeSeal made = integrity::seal(options->file, options->seal, options->unchecked);
    if (options->json) {
      print_json(to_json(made));
    } else {
      print_seal(*options, made);
    }
  });
}

}  // namespace bitrift::cli
