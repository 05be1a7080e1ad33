#include "recovery_options.h"

#include <charconv>
#include <string>

#include "core/error.h"
#include "options/one_of.h"
#include "options/whole_number.h"

namespace bitrift::cli {

using record::RecoveryKind;

void add_recovery_options(CLI::App* command, RecoveryArguments& arguments) {
  constexpr std::int64_t most = 1'000'000'000;
  command
      ->add_option("--on-failure", arguments.on_failure,
                   "What to do when a rank fails (default: none, the run ends; see docs/rank-failure.md)")
      ->check(one_of<RecoveryKind>());
  command
      ->add_option("--state-from", arguments.state,
                   "Where the state of a failed rank comes from (default: a replica where one lives, else a "
                   "buddy's snapshot, else the last checkpoint file)")
      ->check(one_of<record::StateSource>());
  command
      ->add_option("--spares", arguments.spares,
                   "Idle ranks that wait to take a failed one's place (default: 1 with spare, else 0)")
      ->check(whole_number(0, 65536))
      ->type_name("N");
  command
      ->add_option("--snapshot-every", arguments.snapshot_every,
                   "Keep a snapshot in memory, and a copy with a buddy, every N steps (default: 10 where the "
                   "recovery needs one, else 0, never)")
      ->check(whole_number(0, most))
      ->type_name("N");
  command
      ->add_option("--batch-on-failure", arguments.batch,
                   "shrink: compute the same batch with fewer ranks, or a smaller one (default: same)")
      ->check(one_of<record::BatchRule>());
  command
      ->add_option("--expand-after", arguments.expand_after,
                   "shrink: N steps after a failure, start new processes in the places of the lost ranks "
                   "(default: never)")
      ->check(whole_number(1, most))
      ->type_name("N");
  command->add_option("--forget", arguments.forget, "Leave this structure out of the recovery; repeatable")
      ->check(one_of<record::Structure>());
  command
      ->add_option(
          "--detect-hang", arguments.detect_hang,
          "End a rank that is stopped, or neither makes progress nor waits for others, for longer than this: "
          "a rank that hangs then counts as one that died; auto: 60 s or more, by the measured times; off: "
          "never (default: auto, with --on-failure none off)")
      ->type_name("SECONDS|auto|off");
  command->add_option(
      "--kill", arguments.kills,
      "RANK@STEP:PHASE[.POINT][=HOW]: this rank fails in this step of the run (from 1), such as "
      "2@5:backward, or is slow: 2@5:backward=slow:3:10 takes 3 times as long for 10 steps; repeatable");
}

record::RecoverySpec chosen_recovery(const RecoveryArguments& arguments, const record::Parallel& parallel) {
  record::RecoverySpec spec;
  if (arguments.on_failure) spec.kind = parse_named<RecoveryKind>(*arguments.on_failure);
  if (arguments.state) spec.state = parse_named<record::StateSource>(*arguments.state);
  if (arguments.batch) spec.batch = parse_named<record::BatchRule>(*arguments.batch);
  for (const std::string& one : arguments.forget) spec.forget.push_back(parse_named<record::Structure>(one));
  spec.expand_after = arguments.expand_after.value_or(0);
  const bool snapshots =
      spec.kind == RecoveryKind::restart || spec.state == record::StateSource::buddy ||
      (spec.in_place() && parallel.replicas() == 1 && spec.state != record::StateSource::file);
  spec.spares = arguments.spares.value_or(spec.kind == RecoveryKind::spare ? 1 : 0);
  spec.snapshot_every = arguments.snapshot_every.value_or(snapshots ? 10 : 0);
  if (spec.kind != RecoveryKind::none && parallel.ranks == 1 && spec.kind != RecoveryKind::relaunch)
    fail(ErrorCode::bad_input, "--on-failure {}: a run of one rank has nobody left; choose relaunch",
         name_of(spec.kind));
  if (const std::string why = record::refusal_of_shards(spec.kind, parallel); !why.empty())
    fail(ErrorCode::bad_input, "--on-failure {}", why);
  if (spec.batch == record::BatchRule::smaller &&
      (spec.kind != RecoveryKind::shrink || parallel.replicas() < 2))
    fail(ErrorCode::bad_input, "--batch-on-failure smaller needs --on-failure shrink and replicas");
  if (const std::string why = record::refusal_of_expansion(spec, parallel); !why.empty())
    fail(ErrorCode::bad_input, "--expand-after: {}", why);
  return spec;
}

HangLimit chosen_hang_limit(const RecoveryArguments& arguments, RecoveryKind kind,
                            const record::Parallel& parallel, bool started_here) {
  if (!arguments.detect_hang) return {.watches = kind != RecoveryKind::none};
  const std::string& text = *arguments.detect_hang;
  if (text == "off") return {};
  HangLimit limit{.watches = true};
  if (text != "auto") {
    constexpr double least = 0.1, most = 1e6;
    double seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size() || !(seconds >= least && seconds <= most))
      fail(ErrorCode::bad_input, "--detect-hang {}: expected {} to {:g} seconds, auto or off", text, least,
           most);
    limit.seconds = seconds;
  }
  if (parallel.ranks == 1 && kind != RecoveryKind::relaunch)
    fail(ErrorCode::bad_input,
         "--detect-hang: a run of one rank is watched only with --on-failure relaunch; add that, or use "
         "timeout(1)");
  if (!started_here)
    fail(ErrorCode::bad_input,
         "--detect-hang: only ranks that bitrift-train itself starts are watched; start it "
         "without mpirun, or leave the option out");
  return limit;
}

std::vector<record::ProcessFault> chosen_kills(const RecoveryArguments& arguments,
                                               const record::Parallel& parallel) {
  std::vector<record::ProcessFault> faults;
  for (const std::string& text : arguments.kills) {
    faults.push_back(record::process_fault_from_text(text));
    if (faults.back().rank >= parallel.ranks)
      fail(ErrorCode::bad_input, "--kill {}: there is no rank {}; this run has ranks 0 to {}", text,
           faults.back().rank, parallel.ranks - 1);
  }
  return faults;
}

}  // namespace bitrift::cli
