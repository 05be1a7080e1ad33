// Links of a mesh that fail (docs/spec.md, "Links that fail").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "design/kind/kind.h"
#include "design/kind/run/run_end.h"
#include "design/kind/run/steps.h"
#include "record/fault/failed_link.h"
#include "spec/mesh_spec.h"

namespace bitrift::design {

/// Each kind of failure is a stratum "link.<kind>".
struct LinkStrata final : Kind {
  std::vector<record::LinkFailure> kinds = {record::LinkFailure::dead, record::LinkFailure::slow};
  std::optional<StepRange> steps = {};               ///< in which links begin to fail; absent: all of a run
  double delay = 0.001;                              ///< of a slow link, in seconds
  std::optional<std::int64_t> steps_per_epoch = {};  ///< of the arms; known once the campaign has begun

  [[nodiscard]] record::Json to_json() const override;
  [[nodiscard]] std::vector<record::Stratum> strata() const override;
  void check(const record::Document& document, const std::vector<record::Parallel>& arms,
             const std::vector<record::RecoverySpec>& recoveries) const override;
  [[nodiscard]] std::unique_ptr<const Population> population(std::size_t index,
                                                             const Setting& setting) const override;
  [[nodiscard]] const char* members() const override { return "faults"; }
  [[nodiscard]] std::optional<FactNeeded> fact_needed() const override;
  [[nodiscard]] std::optional<record::Json> fact() const override;
  /// fact: a number of steps, or the messages from which bitrift-train counts the steps of an epoch.
  [[nodiscard]] Strata with_fact(const record::Json& fact) const override;
  [[nodiscard]] std::optional<std::int64_t> steps_of_run(std::int64_t epochs) const override;
  [[nodiscard]] bool alters_file() const override { return false; }
  [[nodiscard]] bool recovers() const override { return true; }
  [[nodiscard]] std::vector<Canary> canaries(const record::RecoverySpec&) const override;
  void plant(const std::string& stratum, const Setting& setting, const record::RecoverySpec&,
             record::TrialSpec& run) const override;
  [[nodiscard]] Sentences sentences(const std::optional<std::uint64_t>& size) const override;
  [[nodiscard]] std::string no_rates_by(const std::string& word) const override;
  [[nodiscard]] const char* averaged_over() const override { return "links and steps"; }
  [[nodiscard]] bool leaves_traces() const override { return false; }
};

/// Reads the value at /strata/link of a document that obeys the schema. Throws Error(bad_input) with file,
/// line and key.
[[nodiscard]] Strata link_strata_from(const record::Document& document);

/// Live links of the mesh x steps.
class LinkPopulation final : public ListedPopulation {
 public:
  /// Throws Error(bad_input) when strata.steps_per_epoch is not known, a step is beyond the end of a run, or
  /// the mesh has no live link.
  LinkPopulation(record::LinkFailure kind, const LinkStrata& strata, const record::MeshSpec& mesh,
                 std::int64_t epochs);

  [[nodiscard]] std::uint64_t size() const override { return links_.size() * steps_; }
  [[nodiscard]] record::Faults member(std::uint64_t index, std::size_t) const override {
    return std::vector{at(index)};
  }
  [[nodiscard]] record::FailedLink at(std::uint64_t index) const;

 private:
  double delay_;
  std::int64_t first_step_ = 1;
  std::uint64_t steps_ = 0;
  std::vector<record::FailedLink> links_;  // ascending
};

/// Whether the run met each of the links, and no other. For a run without a result: false.
[[nodiscard]] bool landed(const std::vector<record::FailedLink>& links, const RunEnd& end);

}  // namespace bitrift::design
