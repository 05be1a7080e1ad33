#include "checkpoint_options.h"

#include <utility>

#include "core/error.h"
#include "options/one_of.h"
#include "options/positive_number.h"
#include "options/whole_number.h"

namespace bitrift::cli {

void refuse_without_output(const CheckpointArguments& arguments) {
  const std::pair<bool, const char*> given[] = {
      {arguments.every && *arguments.every != "0", "--checkpoint-every"},
      {arguments.mode.has_value(), "--checkpoint-mode"},
      {arguments.writer.has_value(), "--checkpoint-writer"},
      {arguments.keep.has_value(), "--checkpoint-keep"},
      {arguments.mean_time_between_failures.has_value(), "--mtbf"},
  };
  for (const auto& [is, option] : given) {
    if (is) fail(ErrorCode::bad_input, "{} needs -o, the file or folder that is written", option);
  }
}

void add_checkpoint_options(CLI::App* command, CheckpointArguments& arguments) {
  command
      ->add_option(
          "--checkpoint-every", arguments.every,
          "Write a checkpoint (-o) every N steps too, or auto: as often as costs least, by the measured "
          "cost of a save and --mtbf (default: 0, only at the end)")
      ->type_name("N|auto");
  command
      ->add_option(
          "--checkpoint-mode", arguments.mode,
          "When training continues: sync, when the disk has the checkpoint; async, when its state is "
          "copied in memory (default: sync)")
      ->check(one_of<record::SaveMode>());
  command
      ->add_option("--checkpoint-writer", arguments.writer,
                   "Which ranks write checkpoints: gather, rank 0, to which the others send their tensors; "
                   "shared, every rank its own into the one file; direct, like gather, but bypassing the "
                   "page cache (default: gather)")
      ->check(one_of<record::SaveWriter>());
  command
      ->add_option("--checkpoint-keep", arguments.keep,
                   "With -o DIR: how many of the newest checkpoints stay (default: 2)")
      ->check(whole_number(1, 1'000'000))
      ->type_name("K");
  command
      ->add_option("--mtbf", arguments.mean_time_between_failures,
                   "With --checkpoint-every auto: mean time between two failures of the run, in seconds")
      ->check(positive_number("seconds"))
      ->type_name("SECONDS");
}

record::CheckpointPolicy chosen_checkpoints(const CheckpointArguments& arguments,
                                            record::CheckpointPolicy policy) {
  if (arguments.every) {
    record::set_every(policy, *arguments.every, "--checkpoint-every");
    if (!policy.automatic) policy.mean_time_between_failures.reset();
    if (!policy.writes()) policy.mode = record::SaveMode::sync;
  }
  if (arguments.mode) policy.mode = parse_named<record::SaveMode>(*arguments.mode);
  if (arguments.writer) policy.writer = parse_named<record::SaveWriter>(*arguments.writer);
  if (arguments.keep) policy.keep = arguments.keep;
  if (arguments.mean_time_between_failures)
    policy.mean_time_between_failures = arguments.mean_time_between_failures;
  record::check_checkpoint_policy(policy);
  return policy;
}

void add_checkpoints(record::RecoverySpec& recovery, const record::CheckpointPolicy& policy) {
  recovery.checkpoint_every = policy.every;
  if (!recovery.in_place()) return;
  if (policy.automatic) {
    fail(ErrorCode::bad_input,
         "--checkpoint-every auto cannot be combined with --on-failure {}; give a number of steps, or choose "
         "relaunch",
         name_of(recovery.kind));
  }
  if (policy.mode == record::SaveMode::async) {
    fail(
        ErrorCode::bad_input,
        "--checkpoint-mode async cannot be combined with --on-failure {}, which may need the last checkpoint "
        "before the disk has it; choose sync",
        name_of(recovery.kind));
  }
}

}  // namespace bitrift::cli
