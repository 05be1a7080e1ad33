// How often runs in which nothing is wrong are called SDC: measured, and compared with the stated level.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/verdict/classify.h"

namespace bitrift::analyze {

/// Runs of one kind that were judged like trials, and those of them that were not called masked.
struct Judged {
  std::uint64_t runs = 0;
  std::uint64_t called = 0;
};

/// How often runs of one arm in which nothing is wrong are called SDC.
struct FalseSdc {
  /// Clean runs, in other data orders. They alone measure the false-SDC rate.
  Judged held_out;
  /// Runs with flips of lowest bits, in a golden data order. They share the luck of its golden run, so they
  /// say nothing about other golden runs.
  Judged jitter;
  /// The largest distance, over jitter runs and judged metrics at the horizon, between the badness of a
  /// jitter run and that of its golden run, in units of the clean runs. Absent without a jitter run that
  /// finished.
  std::optional<double> jitter_distance = {};
};

/// Throws as classify does.
[[nodiscard]] FalseSdc false_sdc_of(const std::vector<record::TrialRecord>& rows, const std::string& arm,
                                    const ArmControls& controls, const Judging& judging);

/// The largest rate that is not refuted: one-sided, Clopper and Pearson 1934. No run: 1.
[[nodiscard]] double upper_bound(const Judged& judged, double confidence);

/// The probability that at least `called` of `runs` further runs score beyond the r-th largest of n, where r
/// and n are those of the calibration and all runs are exchangeable: the beta-binomial with parameters r and
/// n + 1 - r.
[[nodiscard]] double chance_of(const Judged& judged, const Calibration& calibration);

/// Less likely counts contradict the stated level.
inline constexpr double contradiction = 0.001;

/// One line for each arm and kind whose count contradicts the level.
[[nodiscard]] std::vector<std::string> false_sdc_problems(const std::map<std::string, FalseSdc>& found,
                                                          const std::map<std::string, ArmControls>& controls);

}  // namespace bitrift::analyze
