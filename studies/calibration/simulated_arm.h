// Campaigns of one training whose clean and golden runs are drawn anew, simulated with effects of faults that
// a real campaign measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/across/sample.h"
#include "core/named_enum.h"
#include "design/campaign_spec.h"
#include "record/trial.h"

namespace bitrift::study {

/// Badness of clean runs.
enum class CleanScores { normal, student, skewed };
constexpr EnumNames<3> names_of(CleanScores) { return {"scores", {"N(0,1)", "t(2)", "lognormal"}}; }
/// The score that a clean run exceeds with probability 1 %.
[[nodiscard]] double true_limit(CleanScores scores);

/// How trials relate to their golden run.
enum class Following {
  rigid,    ///< golden run + effect, as measured in trainings: harmless faults end 1e-5 units from it
  chaotic,  ///< a draw of their own + effect; jitter runs too
  stray,    ///< effect alone: trials do not follow their golden run, although jitter runs do
};
constexpr EnumNames<3> names_of(Following) { return {"following", {"rigid", "chaotic", "stray"}}; }

/// What one fault did.
struct Effect {
  std::optional<double> limits;    ///< in limits of the campaign that measured it; absent: a crash
  record::ElementChange change{};  ///< of a float32
};

/// The effects of all faults of a stratum.
using Effects = std::vector<Effect>;

/// A number that is not of a campaign: of what the simulated ones share.
struct World {
  CleanScores scores = CleanScores::normal;
  Following following = Following::rigid;
  std::vector<Effects> strata;  ///< sign, exponent, mantissa
  std::uint64_t draws = 150;    ///< of each stratum
  int orders = 1;
  int envelope = 99;
  double varies = 0.2;       ///< standard deviation of an effect in another data order, as a share of it
  bool golden_zero = false;  ///< golden runs are at the median, so that the score of a trial is its effect
  std::vector<std::string> arms = {"serial"};
};

/// The effects in a finished campaign's first arm, by bit field. Throws Error as reading a campaign does.
[[nodiscard]] std::vector<Effects> measured_effects(const std::string& folder);

/// Rows of campaigns of one world; made once, filled for each campaign.
class SimulatedCampaigns {
 public:
  explicit SimulatedCampaigns(World world);

  /// runs: the seed of clean, golden and jitter runs. faults: the seed of the draws of faults. harmed: this
  /// share of the faults does harm (twice the true limit) whatever their effect. own_arms: every arm has
  /// clean runs of its own instead of the same. The rows are those of the last call.
  const std::vector<record::TrialRecord>& rows(std::uint64_t runs, std::uint64_t faults, double harmed = 0,
                                               bool own_arms = true);
  /// The sample of the last rows.
  [[nodiscard]] analyze::Sample sample() const;
  [[nodiscard]] const design::CampaignSpec& spec() const noexcept { return spec_; }

 private:
  void fill_arm(const std::string& arm, std::uint64_t runs, std::uint64_t faults, double harmed);

  World world_;
  design::CampaignSpec spec_;
  std::vector<record::TrialRecord> rows_;
  std::uint32_t fault_seed_ = 0;
};

}  // namespace bitrift::study
