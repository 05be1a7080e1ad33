#include "format_options.h"

#include "core/error.h"
#include "options/one_of.h"
#include "output_place.h"

namespace bitrift::cli {
namespace {

// The number format of parameters and optimizer state.
const char* numbers_of(record::Precision precision) {
  switch (precision) {
    case record::Precision::fp64:
      return "float64";
    case record::Precision::bf16:
      return "bfloat16";
    case record::Precision::fp16:
      return "float16";
    case record::Precision::fp32:
    case record::Precision::autocast_bf16:
    case record::Precision::autocast_fp16:
      break;
  }
  return "float32";
}

}  // namespace

void add_format_option(CLI::App* command, FormatArguments& arguments) {
  command
      ->add_option("--format", arguments.format,
                   "Format of the checkpoint that is written (default: as the extension of its name says: "
                   ".safetensors, .npz, .pt and .pth; hdf5 for all others; see docs/checkpoint-formats.md)")
      ->check(one_of<ckpt::WriteFormat>());
}

ckpt::WriteFormat chosen_format(const FormatArguments& arguments, const std::filesystem::path& output) {
  if (arguments.format) return parse_named<ckpt::WriteFormat>(*arguments.format);
  return ckpt::format_of_name(output);
}

void check_format(ckpt::WriteFormat format, const std::filesystem::path& output,
                  const record::TrainingSpec& spec, record::SaveWriter writer,
                  record::RecoveryKind recovery) {
  if (output.empty()) return;
  const bool hdf5 = format == ckpt::WriteFormat::hdf5 || format == ckpt::WriteFormat::hdf5_deflate;
  if (names_folder(output) && !hdf5) {
    fail(ErrorCode::bad_input,
         "-o {}: a folder keeps HDF5 files, not {}; choose hdf5 or hdf5-deflate, or name one file",
         output.string(), name_of(format));
  }
  ckpt::check_holds(format, number_format(numbers_of(spec.precision)).value(),
                    fmt::format("-o {}: precision {}", output.string(), name_of(spec.precision)));
  if (ckpt::is_compressed(format) && writer == record::SaveWriter::shared) {
    fail(ErrorCode::bad_input,
         "--checkpoint-writer shared cannot write {}, whose places depend on the values; choose gather or "
         "direct",
         name_of(format));
  }
  if (spec.guards.checksums && !hdf5 && recovery != record::RecoveryKind::none) {
    fail(ErrorCode::bad_input,
         "--on-failure {} cannot continue from {} with the guard checksums, which needs HDF5; choose hdf5 or "
         "hdf5-deflate",
         name_of(recovery), name_of(format));
  }
  if (format == ckpt::WriteFormat::raw && recovery != record::RecoveryKind::none) {
    fail(ErrorCode::bad_input, "--on-failure {} cannot continue from a file of format raw; choose another",
         name_of(recovery));
  }
}

}  // namespace bitrift::cli
