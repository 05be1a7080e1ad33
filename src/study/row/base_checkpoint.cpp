#include "study/row/base_checkpoint.h"

#include "ckpt/reader.h"
#include "core/error.h"

namespace bitrift::study {

BaseCheckpoint read_base(const std::filesystem::path& path) {
  const ckpt::Reader reader(path);
  const auto spec = reader.attribute("spec");
  const ckpt::TensorInfo* const step = reader.find("progress/step");
  BaseCheckpoint base;
  if (!spec || step == nullptr || step->elements() != 1 || step->element_bytes != sizeof base.step) {
    fail(ErrorCode::bad_file, "{}: not a checkpoint of a training; make one with bitrift-train train",
         path.string());
  }
  base.training = record::training_spec_from_text(*spec, path.string() + ", attribute 'spec'");
  reader.read(*step, &base.step, sizeof base.step);
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    const bool trained = tensor.role == "weight" || tensor.role == "bias" || tensor.role == "norm";
    if (trained && tensor.path.starts_with("model/")) base.parameters += tensor.elements();
  }
  return base;
}

}  // namespace bitrift::study
