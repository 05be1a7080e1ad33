#include "train/state/checkpoint_spec.h"

#include "core/error.h"
#include "train/state/checkpoint_names.h"

namespace bitrift::train {

record::TrainingSpec checkpoint_spec(const ckpt::Reader& reader) {
  const std::optional<std::string> found = reader.attribute("schema");
  const std::optional<std::string> spec = reader.attribute("spec");
  if (found != checkpoint_schema || !spec) {
    const std::string instead =
        fmt::format("a file of format {} without that attribute", name_of(reader.format()));
    fail(ErrorCode::bad_file,
         "{}: expected a checkpoint of schema {}, found {}; make one with bitrift-train train",
         reader.path().string(), checkpoint_schema, found.value_or(instead));
  }
  return record::training_spec_from_text(*spec, reader.path().string() + ", attribute 'spec'");
}

std::int64_t integer_in(const ckpt::Reader& reader, const std::string& path, std::int64_t otherwise) {
  const ckpt::TensorInfo* const found = reader.find(path);
  if (found == nullptr) return otherwise;
  std::int64_t value = 0;
  if (found->elements() != 1 || found->element_bytes != sizeof value) {
    fail(ErrorCode::bad_file, "{}: {} is {} x {}, not one integer of 64 bits", reader.path().string(), path,
         found->elements(), found->dtype);
  }
  reader.read(*found, &value, sizeof value);
  return value;
}

}  // namespace bitrift::train
