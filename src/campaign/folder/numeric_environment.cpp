#include "campaign/folder/numeric_environment.h"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace bitrift::campaign {
namespace {

constexpr const char* variables[] = {
    "OMP_NUM_THREADS",      "OMP_DYNAMIC",          "MKL_NUM_THREADS",        "MKL_CBWR",
    "OPENBLAS_NUM_THREADS", "ATEN_CPU_CAPABILITY",  "ONEDNN_MAX_CPU_ISA",     "DNNL_MAX_CPU_ISA",
    "NVIDIA_TF32_OVERRIDE", "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG"};

}  // namespace

record::Json numeric_environment() {
  record::Json found = record::Json::object();
  for (const char* const name : variables) {
    if (const char* const value = std::getenv(name)) found[name] = value;
  }
  return found;
}

std::string environment_change(const record::Json& before, const record::Json& now) {
  std::vector<std::string> changes;
  for (const char* const name : variables) {
    const std::string was = before.value(name, "unset");
    const std::string is = now.value(name, "unset");
    if (was != is) changes.push_back(fmt::format("{} was {}, is now {}", name, was, is));
  }
  return fmt::format("{}", fmt::join(changes, ", "));
}

std::string environment_hint(const record::Json& began) {
  if (!began.is_object()) return "";
  const std::string change = environment_change(began, numeric_environment());
  if (change.empty()) return "";
  return fmt::format(
      " (the environment changed since the campaign began: {}; results can depend on it, so set it back)",
      change);
}

}  // namespace bitrift::campaign
