// How far outcomes differ between data orders and between bases.
#pragma once

#include <string>
#include <vector>

#include "analyze/observations.h"
#include "analyze/rates/between.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// The total rate of one outcome, of the same arm (and fault model) in several data orders or bases.
struct Variation {
  std::string between;  ///< "orders" or "bases"
  std::string arm;      ///< as in the spec: without the base where bases are compared
  std::string model;    ///< fault model, "" without
  record::OutcomeClass outcome = record::OutcomeClass::masked;
  std::size_t levels = 0;
  Between found;
};

/// For campaigns with several orders or bases; empty for others. Levels that lack a trial in a stratum where
/// another level has one do not take part.
[[nodiscard]] std::vector<Variation> variations_of(const Observations& seen,
                                                   const design::CampaignSpec& spec);
[[nodiscard]] std::string table(const std::vector<Variation>& variations);
[[nodiscard]] record::Json to_json(const std::vector<Variation>& variations);

}  // namespace bitrift::analyze
