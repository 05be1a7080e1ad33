#include "studies/calibration/simulated_arm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "analyze/across/arm_reference.h"
#include "analyze/verdict/classify.h"
#include "analyze/verdict/trust.h"
#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "core/error.h"
#include "core/philox.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/rows.h"

namespace bitrift::study {
namespace {

using analyze::testing::evaluation;
using record::TrialKind;
using record::TrialRecord;

constexpr std::array<const char*, 3> kFields = {"sign", "exponent", "mantissa"};
constexpr std::uint64_t kBits = 1'000'000'000;  // draws with replacement from the effects: a large population
constexpr int kHeldOut = 60;
constexpr int kJitter = 30;
constexpr double kScale = 0.05;  // of a score, in logarithms of the loss
constexpr double kRounding = 1e-5;
constexpr double kTwiceTheLimit = 2;

/// Random numbers of one purpose, one after the other.
class Stream {
 public:
  explicit Stream(std::uint64_t key) : key_(key) {}
  double unit() { return random_unit(key_, next_++, 0); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - unit()));
    return radius * std::cos(2 * std::numbers::pi * unit());
  }
  double score(CleanScores scores) {
    switch (scores) {
      case CleanScores::student: {  // t(2): normal / sqrt(exponential)
        const double z = normal();
        return z / std::sqrt(-std::log(1 - unit()));
      }
      case CleanScores::skewed:
        return std::expm1(0.7 * normal());
      case CleanScores::normal:
        break;
    }
    return normal();
  }

 private:
  std::uint64_t key_;
  std::uint64_t next_ = 0;
};

std::string stratum_of(std::size_t field) { return std::string("weight.") + kFields[field]; }

TrialRecord run_row(TrialKind kind, const std::string& arm, const std::string& stratum, std::uint64_t draw) {
  TrialRecord row =
      analyze::testing::finished(kind, arm, stratum, draw, {{evaluation(1, 0.1, 0.97, 0.2, 0.9)}}, "other");
  return row;
}

void set_score(TrialRecord& row, double score) {
  record::Evaluation& last = row.result->replicas[0].back();
  last.test_loss = std::exp(kScale * score);
  last.test_capped_loss = last.test_loss;
}

std::vector<TrialRecord> skeleton(const World& world, const std::string& arm) {
  std::vector<TrialRecord> rows = analyze::testing::clean_arm(arm);
  std::erase_if(rows, [](const TrialRecord& row) {
    return row.kind == TrialKind::envelope ||
           (row.kind == TrialKind::control && row.id.stratum == "control") || row.id.stratum == "canary:none";
  });
  const auto add = [&](TrialKind kind, const std::string& stratum, std::uint64_t draw, int order) {
    rows.push_back(run_row(kind, arm, stratum, draw));
    rows.back().order = order;
  };
  for (int order = 0; order < world.orders; ++order) {
    for (std::uint64_t i = 0; i < 2; ++i) add(TrialKind::control, record::control_stratum(order), i, order);
  }
  add(TrialKind::canary, "canary:none", 0, 0);
  for (int i = 0; i < world.envelope; ++i)
    add(TrialKind::envelope, "envelope", static_cast<std::uint64_t>(i), 0);
  for (int i = 0; i < kHeldOut; ++i) add(TrialKind::held_out, "held_out", static_cast<std::uint64_t>(i), 0);
  for (int i = 0; i < kJitter; ++i)
    add(TrialKind::jitter, "jitter", static_cast<std::uint64_t>(i), i % world.orders);
  for (std::size_t field = 0; field < kFields.size(); ++field) {
    for (std::uint64_t draw = 0; draw < world.draws; ++draw) {
      add(TrialKind::trial, stratum_of(field), draw, static_cast<int>(draw) % world.orders);
      rows.back().stratum_bits = kBits;
      rows.back().faults.bits().sites = {{.tensor = "model/weight", .role = "weight", .dtype = "float32"}};
    }
  }
  return rows;
}

std::size_t field_of(const std::string& stratum) {
  for (std::size_t field = 0; field < kFields.size(); ++field) {
    if (stratum.ends_with(std::string(".") + kFields[field])) return field;
  }
  fail(ErrorCode::bad_input, "stratum {} is none of a bit field", stratum);
}

}  // namespace

double true_limit(CleanScores scores) {
  switch (scores) {
    case CleanScores::student:
      return 6.9645567;
    case CleanScores::skewed:
      return std::expm1(0.7 * 2.3263479);
    case CleanScores::normal:
      break;
  }
  return 2.3263479;
}

std::vector<Effects> measured_effects(const std::string& folder) {
  const campaign::Layout layout{folder};
  const design::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
  const auto rows = campaign::read_journal(layout.journal()).effective();
  const analyze::Trust trust = analyze::trust_of(rows, analyze::judging_of(spec));
  const std::string& arm = spec.arms.front().name;
  const analyze::ArmControls& controls = trust.controls.at(arm);
  const analyze::MetricValues limit = controls.calibration.value().limit_rises();
  std::vector<Effects> strata(kFields.size());
  for (const TrialRecord& row : rows) {
    if (row.kind != TrialKind::trial || row.id.arm != arm) continue;
    Effects& effects = strata[field_of(row.id.stratum)];
    Effect& found = effects.emplace_back(Effect{{}, row.faults.bits().changes.at(0)});
    found.change.site = 0;
    if (analyze::classify(row, controls, trust.judging).outcome_class() == record::OutcomeClass::crash)
      continue;
    const analyze::MetricValues rises = analyze::rises_of(row, controls, trust.judging.judge);
    double effect = rises[0] / limit[0];
    for (std::size_t j = 1; j < rises.size(); ++j) effect = std::max(effect, rises[j] / limit[j]);
    found.limits = effect;
  }
  return strata;
}

SimulatedCampaigns::SimulatedCampaigns(World world) : world_(std::move(world)) {
  spec_.name = "simulated";
  spec_.seed = 1;
  spec_.bases.front().checkpoint = "base.h5";
  spec_.strata.edit<design::BitStrata>().roles = {"weight"};
  spec_.strata.edit<design::BitStrata>().fields = {kFields.begin(), kFields.end()};
  spec_.trials_per_stratum = world_.draws;
  spec_.orders = world_.orders;
  spec_.envelope_runs = world_.envelope;
  spec_.metrics = {record::Metric::test_capped_loss};
  for (const std::string& arm : world_.arms) {
    spec_.arms.push_back({arm, {}});
    const auto rows = skeleton(world_, arm);
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }
}

void SimulatedCampaigns::fill_arm(const std::string& arm, std::uint64_t runs, std::uint64_t faults,
                                  double harmed) {
  Stream clean(derive_key(runs, "clean"));
  Stream own(derive_key(runs, "own/" + arm));
  Stream drawn(derive_key(faults, "faults"));
  std::map<int, double> golden;
  for (int order = 0; order < world_.orders; ++order)
    golden[order] = world_.golden_zero ? 0 : clean.score(world_.scores);
  const double limit = true_limit(world_.scores);
  for (TrialRecord& row : rows_) {
    if (row.id.arm != arm) continue;
    const double from = golden.at(row.order);
    switch (row.kind) {
      case TrialKind::control:
        if (row.id.stratum == record::zero_step_stratum) break;
        row.result->final_digest = "golden" + std::to_string(row.order);
        row.result->replica_digests = {row.result->final_digest};
        set_score(row, from);
        break;
      case TrialKind::envelope:
      case TrialKind::held_out:
        set_score(row, clean.score(world_.scores));
        break;
      case TrialKind::jitter:
        set_score(row, world_.following == Following::chaotic ? own.score(world_.scores)
                                                              : from + kRounding * own.normal());
        break;
      case TrialKind::canary:
        if (row.id.stratum != "canary:none") break;
        row.result->final_digest = "golden0";
        row.result->replica_digests = {row.result->final_digest};
        set_score(row, golden.at(0));
        break;
      case TrialKind::trial: {
        const Effects& effects = world_.strata[field_of(row.id.stratum)];
        const auto which = static_cast<std::size_t>(drawn.unit() * static_cast<double>(effects.size()));
        const double luck = drawn.unit();
        std::optional<double> effect = effects[which].limits;
        if (effect && luck < harmed) effect = kTwiceTheLimit;
        row.faults.bits().changes = {effects[which].change};
        row.result->status = effect ? record::RunStatus::done : record::RunStatus::nonfinite;
        if (!effect) break;
        const double rise = *effect * limit * (1 + world_.varies * own.normal()) + kRounding * own.normal();
        const double start = world_.following == Following::rigid     ? from
                             : world_.following == Following::chaotic ? own.score(world_.scores)
                                                                      : 0;
        set_score(row, start + rise);
        break;
      }
    }
  }
}

const std::vector<TrialRecord>& SimulatedCampaigns::rows(std::uint64_t runs, std::uint64_t faults,
                                                         double harmed, bool own_arms) {
  fault_seed_ = static_cast<std::uint32_t>(faults);
  for (const std::string& arm : world_.arms)
    fill_arm(arm, own_arms ? derive_key(runs, arm) : runs, faults, harmed);
  return rows_;
}

analyze::Sample SimulatedCampaigns::sample() const {
  analyze::Sample sample = analyze::sample_of(
      rows_, spec_, analyze::trust_of(rows_, analyze::judging_of(spec_)), {}, {{"base", "0123"}});
  // What the rows of a real campaign say by tensor, element and bit.
  for (auto& [id, cell] : sample.cells) std::fill(cell.faults.begin(), cell.faults.end(), fault_seed_);
  return sample;
}

}  // namespace bitrift::study
