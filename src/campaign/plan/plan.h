// The runs of a campaign: a pure function of its spec and its base checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "campaign/plan/run_key.h"
#include "design/campaign_spec.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// The files of design::CampaignSpec::files, open, in that order.
using Bases = std::vector<ckpt::Reader>;

/// A stratum with its faults, and how many of them are drawn in the rounds so far.
struct Cell {
  record::Stratum stratum;
  std::shared_ptr<const design::Population> population;
  std::uint64_t draws = 0;
};

/// How many weights a jitter run alters in their lowest bit, if a base has that many.
inline constexpr std::uint64_t jittered_weights = 16;

/// A reader canary sets all elements of its role to NaN, or the first of each tensor, up to this many in all.
inline constexpr std::uint64_t most_read_elements = std::uint64_t{1} << 22;

/// Expands a spec over its base checkpoints. `spec` and `bases` must outlive the plan.
///
/// The cells are the strata in the order of the spec. Draw d of a stratum is that of its population with the
/// key derive_key(seed, "stratum/" + draws_of(name)), where draws_of() is the name itself unless the kind of
/// fault pairs strata: it depends on no arm, no other stratum and no order. Envelope run i has the order seed
/// random_u64(derive_key(seed, "envelope"), i, 0) in every arm, held-out run i random_u64(derive_key(seed,
/// "held_out"), i, 0), and golden order K > 0 random_u64(derive_key(seed, "order"), K, 0); golden order 0 is
/// the base's own. Jitter run i flips the lowest bit of 16 weights (of all, where there are fewer), as
/// inject::draw draws them with the seed random_u64(derive_key(seed, "jitter"), i, 0).
class Plan {
 public:
  /// Throws Error(bad_input | not_found | unsupported) that names the cell: one that holds no bit, holds
  /// fewer bits than are to be drawn, shares a bit with another, or holds other bits in one base than in
  /// another.
  Plan(const design::CampaignSpec& spec, const Bases& bases);

  [[nodiscard]] const std::vector<Cell>& cells() const noexcept { return cells_; }
  [[nodiscard]] const design::CampaignSpec& spec() const noexcept { return spec_; }
  /// The strata in their order.
  [[nodiscard]] std::vector<record::Stratum> strata() const;
  /// The rounds so far; the first follows from spec and base alone.
  [[nodiscard]] const std::vector<record::Round>& rounds() const noexcept { return rounds_; }
  /// Adds the next round: its draws are then part of the plan.
  void add_round(const record::Round& round);
  /// Adds the published rounds, then those that follow from the spec alone (all, without `sampling`).
  void add_known(const std::vector<record::Round>& published);
  /// Whether the last round is the stop of the campaign's last spec.
  [[nodiscard]] bool ended() const;

  /// The runs of an arm that come before its trials: no-flip controls of every golden order and one of zero
  /// steps, envelope, held-out and jitter runs, and one chain of canaries followed by a control (which shows
  /// that nothing of a canary stays in the worker). If ranks fail, another such chain of the canaries that a
  /// worker survives, and the canary that it does not survive. Runs of one chain share a worker.
  [[nodiscard]] std::vector<std::vector<RunKey>> preparation(const std::string& arm) const;
  /// The trials of an arm in the rounds so far, in stratum and draw order.
  [[nodiscard]] std::vector<RunKey> trials(const std::string& arm) const;
  /// The run with its faults. Throws Error(bad_input) when the plan holds no such run.
  [[nodiscard]] record::TrialSpec expand(const RunKey& key) const;
  /// Finds the run of a text id. Throws Error(bad_input) that says which runs exist.
  [[nodiscard]] RunKey find(const record::TrialId& id) const;
  /// Bits in the stratum of a trial; 0 for every other kind.
  [[nodiscard]] std::uint64_t stratum_bits(const RunKey& key) const;

 private:
  [[nodiscard]] const Cell* cell(const std::string& name) const;
  [[nodiscard]] const design::Arm& arm(const std::string& name) const {
    return spec_.arms[spec_.arm_index(name)];
  }
  [[nodiscard]] std::vector<int> replicas_of(const record::TrialId& id) const;
  [[nodiscard]] record::FaultList jitter_faults(const record::TrialId& id) const;
  [[nodiscard]] std::vector<record::WholeTensor> whole_tensors(const record::TrialId& id) const;
  [[nodiscard]] design::Setting setting(const design::Arm& arm) const {
    return {bases_, arm.parallel, spec_.resume_epochs};
  }
  [[nodiscard]] bool plants_own(const RunKey& key, record::TrialSpec& run) const;
  void add_own_canaries(const std::string& arm, std::vector<std::vector<RunKey>>& chains) const;
  void add_cells();
  void expand_trial(const RunKey& key, record::TrialSpec& run) const;
  void refuse_overlap() const;
  void find_weights();
  void check_jitter() const;

  const design::CampaignSpec& spec_;
  const Bases& bases_;
  std::vector<Cell> cells_;
  std::vector<record::Round> rounds_;
  std::vector<std::string> weights_;  // weights of the model, in natural order
  /// Floating-point tensors from whose values faults are drawn, by role.
  std::map<std::string, std::set<std::string>> read_;
};

}  // namespace bitrift::campaign
