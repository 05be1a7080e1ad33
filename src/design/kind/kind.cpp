#include "design/kind/kind.h"

#include "core/error.h"
#include "core/permutation.h"
#include "record/sampling.h"

namespace bitrift::design {

record::Faults ListedPopulation::draw(std::uint64_t key, std::uint64_t number, std::size_t base) const {
  const Permutation order(size(), key);
  return member(order(number), base);
}

Strata Kind::with_fact(const record::Json& /*fact*/) const {
  fail(ErrorCode::internal, "these strata need no fact");
}

void Kind::plant(const std::string& stratum, const Setting&, const record::RecoverySpec&,
                 record::TrialSpec&) const {
  fail(ErrorCode::internal, "{}: these strata have no canaries of their own", stratum);
}

const char* Kind::plane(const std::string& stratum) const {
  const record::FaultModel* const of = model(stratum);
  return name_of(of == nullptr ? record::Plane::value : of->plane);
}

void refuse_totals(const record::Document& document, std::size_t strata, const char* what) {
  const record::Json& spec = document.value;
  const auto totals = record::SamplingTarget::totals;
  if (strata > 1 && spec.contains("sampling") && spec.at("sampling").value("target", totals) == totals) {
    fail(ErrorCode::bad_input,
         "{}: sampling.target: {} are not parts of one population, so they have no total; give \"strata\"",
         document.place("/sampling/target"), what);
  }
  if (spec.value("exhaustive", false)) {
    fail(ErrorCode::bad_input, "{}: exhaustive: the draws of {} are too many to enumerate",
         document.place("/exhaustive"), what);
  }
}

}  // namespace bitrift::design
