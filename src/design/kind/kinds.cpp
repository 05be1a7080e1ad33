#include "design/kind/kinds.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <optional>
#include <string>

#include "core/error.h"
#include "design/kind/bit_strata.h"
#include "design/kind/model_strata.h"
#include "design/kind/run/compute_strata.h"
#include "design/kind/run/link_strata.h"
#include "design/kind/run/process_strata.h"
#include "design/kind/run/wire_strata.h"

namespace bitrift::design {
namespace {

using record::Document;
using record::Json;

struct Entry {
  const char* key;  ///< the key under `strata` that shows the kind
  Strata (*read)(const Document&);
  std::optional<FactNeeded> (*fact_needed)();
  const char* no_tensors;  ///< why `strata.tensors` does not fit it; nullptr: it does
};
template <std::derived_from<Kind> K>
constexpr Entry entry(const char* key, Strata (*read)(const Document&), const char* no_tensors = nullptr) {
  return {key, read, [] { return K().fact_needed(); }, no_tensors};
}
const std::array entries = {
    entry<BitStrata>("roles", bit_strata_from),
    entry<ModelStrata>("models", model_strata_from, "with models each of them names its own tensors"),
    entry<ProcessStrata>("process", process_strata_from, "ranks that fail alter no tensor"),
    entry<WireStrata>("wire", wire_strata_from, "links alter messages of gradients and no tensor"),
    entry<LinkStrata>("link", link_strata_from, "links that fail alter no tensor"),
    entry<ComputeStrata>("compute", compute_strata_from,
                         "faults while computing alter no tensor of a file; give strata.compute.tensors"),
};

// The kind that the keys show. A document with only one of `roles` and `fields` is one of bits, in which the
// other is missing.
const Entry& shown_by(const Document& document) {
  const Json& value = document.value.at("strata");
  const auto shows = [&](const Entry& one) {
    return value.contains(one.key) || (one.no_tensors == nullptr && value.contains("fields"));
  };
  if (std::ranges::count_if(entries, shows) != 1) {
    fail(ErrorCode::bad_input,
         "{}: strata: expected either 'roles' and 'fields', or 'models', or 'process', or 'wire', or 'link', "
         "or 'compute'",
         document.place("/strata"));
  }
  return *std::ranges::find_if(entries, shows);
}

}  // namespace

Strata strata_from(const Document& document, bool stored) {
  const Entry& shown = shown_by(document);
  if (shown.no_tensors != nullptr && document.value.at("strata").contains("tensors")) {
    fail(ErrorCode::bad_input, "{}: strata.tensors: {}; remove the key", document.place("/strata/tensors"),
         shown.no_tensors);
  }
  const auto fact = shown.fact_needed();
  if (!stored && fact && document.value.contains(Json::json_pointer(fact->pointer))) {
    fail(ErrorCode::bad_input, "{}: bitrift finds out {}; remove the key", document.where(fact->pointer),
         fact->says);
  }
  return shown.read(document);
}

}  // namespace bitrift::design
