#include "sink/format/write_format.h"

#include "archive/element_type.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

bool holds(WriteFormat format, const NumberFormat& numbers) {
  switch (format) {
    case WriteFormat::hdf5:
    case WriteFormat::hdf5_deflate:
      return !numbers.finite_only;
    case WriteFormat::safetensors:
      return archive::safetensors_code(numbers.name()).has_value();
    case WriteFormat::npz:
    case WriteFormat::npz_deflate:
      return archive::npy_code(numbers.name()).has_value();
    case WriteFormat::pytorch:
      return archive::torch_code(numbers.name()).has_value();
    case WriteFormat::raw:
      return true;
  }
  return false;
}

/// "hdf5, safetensors or pytorch".
std::string formats_for(const NumberFormat& numbers) {
  std::vector<std::string> fitting;
  for (const WriteFormat format :
       {WriteFormat::hdf5, WriteFormat::safetensors, WriteFormat::npz, WriteFormat::pytorch}) {
    if (holds(format, numbers)) fitting.emplace_back(name_of(format));
  }
  std::string list;
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    if (i > 0) list += i + 1 < fitting.size() ? ", " : " or ";
    list += fitting[i];
  }
  return list;
}

}  // namespace

WriteFormat format_of_name(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  if (extension == ".safetensors") return WriteFormat::safetensors;
  if (extension == ".npz") return WriteFormat::npz;
  if (extension == ".pt" || extension == ".pth") return WriteFormat::pytorch;
  return WriteFormat::hdf5;
}

bool is_compressed(WriteFormat format) noexcept {
  return format == WriteFormat::hdf5_deflate || format == WriteFormat::npz_deflate;
}

void check_holds(WriteFormat format, const NumberFormat& numbers, std::string_view what) {
  if (holds(format, numbers)) return;
  fail(ErrorCode::bad_input, "{}: {} cannot hold {}; choose {}", what, name_of(format), numbers.name(),
       formats_for(numbers));
}

void check_holds(WriteFormat format, const std::vector<TensorMeta>& metas) {
  for (const TensorMeta& meta : metas) check_holds(format, meta.format, meta.path);
}

}  // namespace bitrift::ckpt
