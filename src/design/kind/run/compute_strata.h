// Faults while computing (docs/spec.md, "Faults while computing").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "design/kind/kind.h"
#include "design/kind/run/compute_pattern.h"
#include "design/kind/run/run_end.h"
#include "design/kind/run/steps.h"
#include "record/fault/compute_map.h"

namespace bitrift::design {

/// Each site x pattern is a stratum "<site>.<pattern>".
struct ComputeStrata final : Kind {
  ComputePatterns patterns;  ///< bit fields, an effect, or a mixture; at least one
  std::vector<record::ComputeSite> sites = {record::ComputeSite::activation, record::ComputeSite::gradient,
                                            record::ComputeSite::weight_gradient,
                                            record::ComputeSite::update};
  std::vector<std::string> tensors;     ///< globs of names of layers and keys of parameters; empty: all
  std::optional<StepRange> steps = {};  ///< in which faults strike first; absent: all of a run
  std::int64_t lasting = 1, every = 1;  ///< the same for every fault; see record::ComputeFault
  /// Draw d strikes the same element and bit in the same step at all sites of parameters, and so it does at
  /// all sites of layers, where these have the same population.
  bool paired = false;
  std::optional<record::ComputeMap> computations = {};  ///< of the arms; known once the campaign has begun

  [[nodiscard]] record::Json to_json() const override;
  [[nodiscard]] std::vector<record::Stratum> strata() const override;
  [[nodiscard]] std::string draws_of(const std::string& stratum) const override;
  void check(const record::Document& document, const std::vector<record::Parallel>& arms,
             const std::vector<record::RecoverySpec>&) const override;
  [[nodiscard]] std::unique_ptr<const Population> population(std::size_t index,
                                                             const Setting& setting) const override;
  [[nodiscard]] const char* members() const override { return of_bits() ? "bits" : "numbers"; }
  /// Whether the members of a stratum are bits, and not numbers.
  [[nodiscard]] bool of_bits() const noexcept {
    return !patterns.weighted() && (patterns.list.empty() || patterns.list.front().flips());
  }
  /// Throws Error(bad_input) before they are known.
  [[nodiscard]] const record::ComputeMap& known_computations() const;
  [[nodiscard]] std::optional<FactNeeded> fact_needed() const override;
  [[nodiscard]] std::optional<record::Json> fact() const override;
  [[nodiscard]] Strata with_fact(const record::Json& fact) const override;
  [[nodiscard]] std::vector<std::string> layers() const override;
  [[nodiscard]] std::optional<std::int64_t> steps_of_run(std::int64_t epochs) const override;
  [[nodiscard]] bool alters_file() const override { return false; }
  [[nodiscard]] const char* plane(const std::string&) const override { return record::compute_plane; }
  [[nodiscard]] std::vector<Canary> canaries(const record::RecoverySpec&) const override;
  void plant(const std::string& stratum, const Setting& setting, const record::RecoverySpec&,
             record::TrialSpec& run) const override;
  [[nodiscard]] Sentences sentences(const std::optional<std::uint64_t>& size) const override;
  [[nodiscard]] std::string no_rates_by(const std::string& word) const override;
  [[nodiscard]] const char* usual_dimension() const override { return "stratum"; }
  [[nodiscard]] const char* averaged_over() const override { return members(); }
};

/// Reads the value at /strata/compute of a document that obeys the schema. Throws Error(bad_input) with file,
/// line and key.
[[nodiscard]] Strata compute_strata_from(const record::Document& document);

/// Steps x replicas x tensors of the site x passes of a step x elements x bits of the field: every bit that a
/// run computes there, once, except in short steps. Without the bits where a fault sets the whole number. In
/// a mixture, every number is there as often as the weight of the pattern says, divided by the unit of the
/// weights: so a member that is drawn uniformly from the patterns of a site has a pattern that is drawn by
/// its weight, and a number that is drawn uniformly. If faults last or strike several elements, this is where
/// they begin. What is random in a member is a function of its index.
class ComputePopulation final : public ListedPopulation {
 public:
  /// Throws Error(bad_input) when strata.computations is not known, a step is beyond the end of a run, no
  /// such tensor exists or none has such a bit, a fault has more elements or bits than a tensor, or there are
  /// more than 2^53 members.
  ComputePopulation(record::ComputeSite site, const ComputePattern& pattern, const ComputeStrata& strata,
                    std::int64_t epochs);

  [[nodiscard]] std::uint64_t size() const override { return cells_ * replicas_ * steps_; }
  [[nodiscard]] record::Faults member(std::uint64_t index, std::size_t) const override;
  /// The first fault of this member, and the only one unless it strikes scattered elements or several bits.
  [[nodiscard]] record::ComputeFault at(std::uint64_t index) const;
  /// The layer of a parameter is the one whose name its key begins with.
  [[nodiscard]] std::vector<TensorMembers> computed() const override;

 private:
  struct Tensor {
    std::string name, layer;
    std::vector<unsigned> bits;  // of the field
    unsigned width;              // bits of a number
    std::uint64_t elements, passes;
    std::uint64_t each;    // members for an element
    std::uint64_t before;  // members of the earlier tensors in a step, on one replica
  };
  void check_fits(const record::ComputeMap::Tensor& tensor) const;
  void find_tensors(const ComputeStrata& strata, const record::ComputeMap& map);

  [[nodiscard]] const Tensor& tensor_of(std::uint64_t index) const;

  ComputePattern pattern_;
  std::uint64_t tickets_ = 0;   // members for a number if the pattern is one of a mixture
  record::ComputeFault first_;  // of every member: site, effect, duration and elements
  FullSteps full_steps_;
  std::int64_t steps_before_ = 0;  // full steps of the run before the first one of the population
  std::uint64_t steps_ = 0, replicas_ = 1;
  std::uint64_t cells_ = 0;  // members in all passes of a step on one replica
  std::vector<Tensor> tensors_;
};

/// Whether each fault struck and its first element was read back as it had to be, and nothing else was
/// struck. For a run without a result this is not known: false.
[[nodiscard]] bool landed(const std::vector<record::ComputeFault>& faults, const RunEnd& end);

}  // namespace bitrift::design
