// A campaign as a user writes it (docs/spec.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "design/kind/kind.h"
#include "record/fault/scope.h"
#include "record/metric.h"
#include "record/propagation_report.h"
#include "record/recovery.h"
#include "record/sampling.h"
#include "spec/base_spec.h"
#include "spec/runner_spec.h"

namespace bitrift::design {

/// Whose metrics count: those of the worst replica, or of replica 0.
enum class Judge { worst, rank0 };
constexpr EnumNames<2> names_of(Judge) { return {"judge", {"worst", "rank0"}}; }

/// One side of a comparison: every drawn fault runs in every arm.
struct Arm {
  std::string name;  ///< as in rows: STEM, or STEM@BASE if there are several bases
  record::Parallel parallel;
  record::Scope scope = {};  ///< which replicas load the altered file; all others load the base
  std::optional<record::GuardSpec> guards = {};  ///< guards that replace those of the base's spec
  std::vector<std::string> words = {};  ///< added to the command or the script of CampaignSpec::runner
  std::string precision = {};           ///< the precision to which the base is converted; "": as it was
                                        ///< trained
  std::string stem = {};                ///< the name in the spec; "" means `name`
  std::size_t file = 0;                 ///< index into CampaignSpec::files
  record::RecoverySpec recovery = {};   ///< its reaction when a rank fails
};

struct CampaignSpec {
  std::string name;
  std::uint64_t seed = 0;
  std::vector<record::BaseSpec> bases = {record::BaseSpec{}};  ///< at least one
  std::vector<record::BaseFile> files = {
      record::BaseFile{}};  ///< the files from which the arms resume; follows from bases and arms
  std::int64_t resume_epochs = 1;
  std::vector<Arm> arms;  ///< each arm of the spec once for every base, the bases of one arm side by side
  Strata strata;          ///< the kind of fault that is studied, and where
  // How much is drawn; each draw runs in every arm. Exactly one of these three is requested.
  std::uint64_t trials_per_stratum = 0;      ///< draws per stratum, in one round; 0: one of the others is
                                             ///< requested
  std::optional<record::Sampling> sampling;  ///< by rounds, until a half-width is reached
  bool exhaustive = false;                   ///< every bit of every stratum
  int control_repeats = 2;                   ///< no-flip runs per arm that must agree to the bit, at least 2
  int check_every = 100;   ///< trials of a worker between two no-flip runs that must be golden
  int orders = 1;          ///< data orders: draw d runs under order d mod orders, each with a golden run
  int envelope_runs = 99;  ///< clean runs with other data orders per arm, for the calibration; at least 20
  int held_out_runs = 60;  ///< further such runs, judged like trials
  int jitter_runs = 30;    ///< golden orders with lowest bits of weights flipped, judged like trials
  /// Whether a run with all tensors of a role NaN must not end like the golden run, for each targeted role.
  /// Absent in campaigns that did not check this.
  std::optional<bool> reader_canaries = true;
  double confidence = 0.95;
  std::optional<record::PropagationSpec>
      propagation;  ///< which states of trials are compared with the golden run's
  Judge judge = Judge::worst;
  double level = 0.01;  ///< how often a clean run may be called SDC
  std::vector<record::Metric> metrics = record::default_metrics();  ///< metrics that count as harm
  std::optional<double> deadline_s;        ///< per trial; absent: 10 s + 20 x the arm's control
  std::optional<double> start_deadline_s;  ///< until a worker is ready; absent: see start_deadline(). Decides
                                           ///< no outcome, so it may differ from start to start.
  std::optional<std::uint64_t> memory;  ///< bytes that all processes of a worker may hold; absent: no limit
  bool early_end = true;                ///< a trial that is back at the golden run's state ends early
  record::RunnerSpec runner = {};       ///< what trains
  std::string launch;  ///< command line template that starts the ranks of a worker; "" = mpirun of the build
  bool network = false;  ///< worker.connect: ranks reach the driver over TCP, so that they may run elsewhere
  /// For an extended campaign: its earlier specs, the first one first. Not part of the canonical form.
  std::vector<CampaignSpec> earlier = {};

  /// The index of the arm of this name in `arms`. Throws Error(bad_input) that lists all names.
  [[nodiscard]] std::size_t arm_index(std::string_view arm_name) const;
  /// Seconds that a worker may take to start. By default 120 for bitrift-train, and 600 for the user's own
  /// program, which may import a large framework over a network file system.
  [[nodiscard]] double start_deadline() const;
  [[nodiscard]] const record::BaseSpec& base_of(const Arm& arm) const {
    return bases.at(files.at(arm.file).base);
  }
  /// The arm's own guards, else those of its base; none where a base is a ready checkpoint.
  [[nodiscard]] record::GuardSpec guards_of(const Arm& arm) const;
};

/// Reads a spec, applies its `scale` and `--set key=value` overrides (dotted keys, JSON values or bare
/// strings), checks it.
/// Errors name file, line, key and what was expected.
[[nodiscard]] CampaignSpec read_campaign_spec(const std::filesystem::path& path,
                                              const std::vector<std::string>& overrides = {});
/// Canonical form, stored in the campaign's folder; a change between two starts is refused by comparing it.
[[nodiscard]] record::Json to_json(const CampaignSpec& spec);
/// From the stored canonical form. Throws Error(bad_file).
[[nodiscard]] CampaignSpec campaign_spec_from_json(const record::Json& value);

}  // namespace bitrift::design
