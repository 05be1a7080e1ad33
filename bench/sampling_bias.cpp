#include "sampling_bias.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "analyze/order.h"
#include "analyze/rates/total_estimate.h"
#include "simulated.h"

namespace bitrift {
namespace {

/// Mean of a quantity over campaigns, and its standard error. `chance`, whose mean is 0 for certain, tells
/// how far chance took the campaigns: what it explains is taken out.
class ControlledMean {
 public:
  void add(double value, double chance) {
    values_.push_back(value);
    chances_.push_back(chance);
  }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] std::pair<double, double> mean_and_error() const {
    const auto n = static_cast<double>(values_.size());
    double sum = 0;
    double product = 0;
    double square = 0;
    for (const double value : values_) sum += value / n;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      product += (values_[i] - sum) * chances_[i];
      square += chances_[i] * chances_[i];
    }
    const double slope = square > 0 ? product / square : 0;
    double mean = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) mean += (values_[i] - slope * chances_[i]) / n;
    double variance = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const double rest = values_[i] - slope * chances_[i] - mean;
      variance += rest * rest / n;
    }
    return {mean, std::sqrt(variance / n)};
  }

 private:
  std::vector<double> values_, chances_;
};

/// Some strata of the quickstart as one line, and what is measured of it: former and present estimate of SDC
/// and crash.
struct BiasLine {
  std::string name;
  std::vector<std::size_t> members;
  std::array<std::array<ControlledMean, 2>, 2> means = {};
};

std::vector<BiasLine> bias_lines() {
  std::vector<BiasLine> lines = {
      {"all strata", {0, 1, 2, 3, 4, 5, 6, 7, 8}}, {"role weight", {0, 1, 2}}, {"field exponent", {1, 4, 7}}};
  for (const std::size_t h : {1, 4, 7}) lines.push_back({quickstart()[h].stratum.name, {h}});
  return lines;
}

double rate_of(const Truth& truth, std::size_t outcome) { return outcome == 1 ? truth.sdc : truth.crash; }

// The rates of a campaign that is over, relative to the true ones.
void add_campaign(BiasLine& line, const Campaign& campaign, const analyze::Order& order) {
  std::vector<analyze::StratumClasses> strata(quickstart().size());
  double bits = 0;
  for (std::size_t h = 0; h < strata.size(); ++h) {
    const auto& cell = campaign.seen.cells.at({"serial", quickstart()[h].stratum.name});
    strata[h].bits = cell.bits;
    strata[h].counted = std::find(line.members.begin(), line.members.end(), h) != line.members.end();
    if (strata[h].counted) bits += static_cast<double>(cell.bits);
    for (const Reason reason : cell.outcomes) {
      strata[h].classes.push_back(static_cast<std::uint8_t>(record::class_of(reason)));
    }
  }
  const auto now = analyze::total_estimate(order.rounds, strata, 3);
  const auto before = analyze::total_estimate({}, strata, 3);
  for (std::size_t outcome = 1; outcome <= 2; ++outcome) {
    double truth = 0;
    double chance = 0;
    for (const std::size_t h : line.members) {
      const double rate = rate_of(quickstart()[h], outcome);
      const auto& classes = strata[h].classes;
      const auto hits = static_cast<double>(std::count(classes.begin(), classes.end(), outcome));
      truth += static_cast<double>(strata[h].bits) * rate / bits;
      // Wald: hits less rate x draws has the mean 0, wherever a campaign stops.
      chance += hits - rate * static_cast<double>(classes.size());
    }
    if (truth == 0) continue;
    line.means[0][outcome - 1].add(before[outcome] / truth - 1, chance);
    line.means[1][outcome - 1].add(now[outcome] / truth - 1, chance);
  }
}

void bias_of(const design::CampaignSpec& asked, int repetitions) {
  std::vector<BiasLine> lines = bias_lines();
  double trials = 0;
  for (int i = 0; i < repetitions; ++i) {
    design::CampaignSpec spec = asked;
    spec.seed = static_cast<std::uint64_t>(i) + 1;
    const Campaign campaign = run(spec, quickstart(), [](const Campaign&) {});
    trials += static_cast<double>(campaign.trials()) / repetitions;
    const analyze::Order order = analyze::order_of(spec, campaign.rounds, campaign.seen);
    for (BiasLine& line : lines) add_campaign(line, campaign, order);
  }
  fmt::print("{} within +-{:g} points, {}: {} campaigns of {:.0f} trials in the mean\n",
             name_of(asked.sampling->target), 100 * asked.sampling->half_width,
             name_of(asked.sampling->allocation), repetitions, trials);
  for (const BiasLine& line : lines) {
    for (std::size_t outcome = 0; outcome < 2; ++outcome) {
      if (line.means[0][outcome].empty()) continue;
      const auto [before, before_error] = line.means[0][outcome].mean_and_error();
      const auto [now, now_error] = line.means[1][outcome].mean_and_error();
      fmt::print("  {:<18} {:<5}  k/n {:+6.2f} % (+-{:.2f})   estimate {:+6.2f} % (+-{:.2f})\n", line.name,
                 outcome == 0 ? "SDC" : "crash", 100 * before, 100 * before_error, 100 * now,
                 100 * now_error);
    }
  }
}

}  // namespace

int bias(int repetitions) {
  fmt::print("relative bias with its standard error\n");
  bias_of(spec_of("totals", "neyman", 0.02), repetitions);
  bias_of(spec_of("totals", "neyman", 0.01), repetitions / 3);
  bias_of(spec_of("totals", "even", 0.02), repetitions / 3);
  bias_of(spec_of("strata", "neyman", 0.02), repetitions / 10);
  return 0;
}

}  // namespace bitrift
