#include "design/kind/kind.h"

#include "core/error.h"
#include "core/permutation.h"

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

}  // namespace bitrift::design
