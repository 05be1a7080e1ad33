#include "sink/format/image_of.h"

#include <utility>

#include "core/error.h"
#include "sink/format/npz_image.h"
#include "sink/format/safetensors_image.h"
#include "sink/format/torch_image.h"
#include "sink/hdf5_image.h"
#include "sink/tensor_list.h"

namespace bitrift::ckpt {
namespace {

Image raw_image(const std::vector<TensorMeta>& metas) {
  Image image;
  for (const TensorMeta& meta : metas) {
    image.tensors.push_back({meta.path, image.file_bytes, meta.bytes()});
    image.file_bytes += meta.bytes();
  }
  return image;
}

}  // namespace

Image image_of(WriteFormat format, std::vector<TensorMeta> metas,
               const std::map<std::string, std::string>& attributes) {
  metas = checked_tensors(std::move(metas));
  check_holds(format, metas);
  switch (format) {
    case WriteFormat::hdf5:
      return hdf5_image(std::move(metas), attributes);
    case WriteFormat::safetensors:
      return safetensors_image(metas, attributes);
    case WriteFormat::npz:
      return npz_image(metas, attributes);
    case WriteFormat::pytorch:
      return torch_image(metas, attributes);
    case WriteFormat::raw:
      return raw_image(metas);
    case WriteFormat::hdf5_deflate:
    case WriteFormat::npz_deflate:
      break;
  }
  fail(ErrorCode::internal, "files of {} have no image: their size depends on the values", name_of(format));
}

}  // namespace bitrift::ckpt
