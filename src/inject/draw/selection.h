// The tensors of a file that a fault model targets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "record/fault/fault.h"
#include "record/fault/scope.h"

namespace bitrift::inject {

/// A chosen tensor and the number format as which its bits are read.
struct Chosen {
  const ckpt::TensorInfo* tensor = nullptr;
  NumberFormat format;
};

/// The keys that choose tensors; see record::FaultModel.
struct Choice {
  std::vector<std::string> tensors;
  std::vector<std::string> exclude;
  std::vector<std::string> roles;
  std::vector<std::string> layers;
  std::map<std::string, std::string> as;
  record::Scope scope;
  std::uint64_t seed = 0;  ///< the key that draws the replicas of a scope given by a number
};

/// The tensors in path order. Where no tensors, roles and layers are chosen, those that cannot be altered are
/// left out. Throws Error(not_found | unsupported | bad_input): a glob, role or layer that matches nothing, a
/// matched tensor that cannot be altered, a format that does not fit, a scope that the file cannot express,
/// nothing left.
[[nodiscard]] std::vector<Chosen> choose(const ckpt::Reader& reader, const Choice& choice);
/// The tensors that choose() left out because they cannot be altered, in path order.
[[nodiscard]] std::vector<const ckpt::TensorInfo*> left_out(const ckpt::Reader& reader, const Choice& choice);
/// The keys of a model that choose tensors.
[[nodiscard]] Choice choice_of(const record::FaultModel& model);

}  // namespace bitrift::inject
