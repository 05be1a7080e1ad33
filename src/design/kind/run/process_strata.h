// Ranks that fail (docs/spec.md, "Ranks that fail").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "design/kind/kind.h"
#include "design/kind/run/run_end.h"
#include "design/kind/run/steps.h"
#include "record/fault/kill_points.h"

namespace bitrift::design {

/// Each phase in which ranks fail is a stratum "process.<phase>". In storms they fail again and again: then
/// each mean number of steps between two failures is one, "process.every_<steps>".
struct ProcessStrata final : Kind {
  std::vector<record::TrainingPhase> phases;
  std::optional<StepRange> steps = {};  ///< in which ranks fail; absent: all of a run
  std::vector<std::int64_t> every =
      {};            ///< storms: mean steps between two failures; empty: one failure a trial
  int together = 1;  ///< ranks that fail at the same point; not of storms
  std::vector<record::FailureMode> how = {record::FailureMode::kill};  ///< one, or several of storms
  std::optional<record::Slowness> slow = {};                           ///< of mode slow
  std::optional<record::KillPoints> points = {};  ///< of the arms; known once the campaign has begun

  [[nodiscard]] record::Json to_json() const override;
  [[nodiscard]] std::vector<record::Stratum> strata() const override;
  void check(const record::Document& document, const std::vector<record::Parallel>& arms,
             const std::vector<record::RecoverySpec>& recoveries) const override;
  [[nodiscard]] std::unique_ptr<const Population> population(std::size_t index,
                                                             const Setting& setting) const override;
  [[nodiscard]] const char* members() const override { return storms() ? "storms" : "faults"; }
  [[nodiscard]] bool pooled() const override { return !storms(); }
  [[nodiscard]] std::optional<FactNeeded> fact_needed() const override;
  [[nodiscard]] std::optional<record::Json> fact() const override;
  [[nodiscard]] Strata with_fact(const record::Json& fact) const override;
  [[nodiscard]] std::optional<std::int64_t> steps_of_run(std::int64_t epochs) const override;
  [[nodiscard]] bool alters_file() const override { return false; }
  [[nodiscard]] bool recovers() const override { return true; }
  [[nodiscard]] int failing() const override;
  [[nodiscard]] std::vector<Canary> canaries(const record::RecoverySpec& recovery) const override;
  void plant(const std::string& stratum, const Setting& setting, const record::RecoverySpec& recovery,
             record::TrialSpec& run) const override;
  [[nodiscard]] Sentences sentences(const std::optional<std::uint64_t>& size) const override;
  [[nodiscard]] std::string no_rates_by(const std::string& word) const override;
  [[nodiscard]] const char* averaged_over() const override {
    return storms() ? "draws" : "ranks, steps and points";
  }
  [[nodiscard]] bool leaves_traces() const override { return false; }
  [[nodiscard]] bool has(record::TrainingPhase phase) const;
  [[nodiscard]] bool has(record::FailureMode mode) const;
  [[nodiscard]] bool storms() const noexcept { return !every.empty(); }
  /// The steps of a run in which ranks fail. Throws Error(bad_input) when `points` is unknown or has other
  /// stages, or a step is beyond the end of a run.
  [[nodiscard]] StepRange steps_of_trial(const record::Parallel& parallel, std::int64_t epochs) const;

 private:
  [[nodiscard]] Sentences sentences_of_storms(const std::string& in_phases) const;
  void check_ways(const record::Document& document) const;
  void check_storms(const record::Document& document) const;
  void check_victims(const record::Document& document, int ranks,
                     const std::vector<record::RecoverySpec>& recoveries) const;
};

/// Reads the value at /strata/process of a document that obeys the schema. Throws Error(bad_input) with file,
/// line and key.
[[nodiscard]] Strata process_strata_from(const record::Document& document);

/// All sets of `together` ranks x steps x points of the phase. Ranks of other stages have other numbers of
/// points: a set has as many as the rank with the most, and the others fail at their last (ProcessFault).
/// Ranks without a point in the phase are in no set.
///
/// In phase recovery: all ordered pairs of ranks x steps x the parts of a recovery. The first rank fails in
/// phase reduce, the second while that failure is handled. In phase evaluate: the steps are those after
/// which an evaluation comes, one an epoch.
class ProcessPopulation final : public ListedPopulation {
 public:
  /// Throws Error(bad_input) when strata.points is unknown or has other stages, a step is beyond the end of a
  /// run, no rank has a point in the phase, or there are more than 2^47 members.
  ProcessPopulation(record::TrainingPhase phase, const ProcessStrata& strata,
                    const record::Parallel& parallel, std::int64_t epochs);

  [[nodiscard]] std::uint64_t size() const override { return places_ * steps_; }
  [[nodiscard]] record::Faults member(std::uint64_t index, std::size_t) const override { return at(index); }
  /// Ranks ascending.
  [[nodiscard]] std::vector<record::ProcessFault> at(std::uint64_t index) const;

 private:
  struct Victim {
    int rank;
    std::uint64_t points;
  };
  void find_victims(const ProcessStrata& strata, const record::Parallel& parallel);
  [[nodiscard]] std::vector<record::ProcessFault> pair_at(std::uint64_t place, std::int64_t step) const;

  record::TrainingPhase phase_;
  record::FailureMode how_;
  std::optional<record::Slowness> slowness_;
  int together_;
  std::uint64_t steps_ = 0;                   // how many
  std::int64_t first_step_ = 1, stride_ = 1;  // step i is first_step_ + i x stride_
  std::vector<Victim> victims_;               // the rank with the fewest points first
  // The number of pairs (set, point) with an earlier last victim; a set's last victim has the most points.
  std::vector<std::uint64_t> before_;
  std::uint64_t places_ = 0;  // (set, point), without the step
};

/// Whether exactly the ranks failed that were to fail. A run that continued must have recovered from the
/// failure of each, as often as it was to fail; a rank that is slow does not fail, and the run must have
/// reached the step. A recovery that failed must name one of them: the others may have had no time to fail.
/// Without a result, the worker must have been lost in the way of the fault.
[[nodiscard]] bool landed(const std::vector<record::ProcessFault>& faults, const RunEnd& end);

}  // namespace bitrift::design
