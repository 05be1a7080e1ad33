// Fault models: each draw is a set of faults in the file.
#pragma once

#include <string>
#include <vector>

#include "design/kind/kind.h"

namespace bitrift::design {

/// A fault model as a separate stratum.
struct StratumModel {
  std::string name;
  record::FaultModel model;  ///< its seed is drawn again for every trial
};

/// Models are studied one by one: they may hit the same bits, and have no common rate.
struct ModelStrata final : Kind {
  ModelStrata() = default;
  explicit ModelStrata(std::vector<StratumModel> models) : models(std::move(models)) {}

  std::vector<StratumModel> models;

  [[nodiscard]] record::Json to_json() const override;
  /// A stratum's role lists the roles of its model with '+' ("any" without), its field is the model's bits.
  [[nodiscard]] std::vector<record::Stratum> strata() const override;
  void check(const record::Document& document, const std::vector<record::Parallel>&,
             const std::vector<record::RecoverySpec>&) const override;
  /// Draw d is the set that inject::draw draws with the seed random_u64(key, d, 0).
  [[nodiscard]] std::unique_ptr<const Population> population(std::size_t index,
                                                             const Setting& setting) const override;
  [[nodiscard]] const char* members() const override { return "sets of faults"; }
  [[nodiscard]] bool pooled() const override { return false; }
  [[nodiscard]] bool alters_file() const override { return true; }
  [[nodiscard]] const record::FaultModel* model(const std::string& stratum) const override;
  [[nodiscard]] bool asks_for(const std::string& tensor, const std::string& role) const override;
  [[nodiscard]] std::vector<Canary> canaries(const record::RecoverySpec&) const override { return {}; }
  [[nodiscard]] Sentences sentences(const std::optional<std::uint64_t>& size) const override;
  [[nodiscard]] std::string no_rates_by(const std::string& word) const override;
  [[nodiscard]] const char* usual_dimension() const override { return "stratum"; }
  [[nodiscard]] const char* averaged_over() const override { return "draws"; }
};

/// Reads the value at /strata of a document that obeys the schema. Throws Error(bad_input) with file, line
/// and key: doubled names, invalid fields, several amounts.
[[nodiscard]] Strata model_strata_from(const record::Document& document);

}  // namespace bitrift::design
