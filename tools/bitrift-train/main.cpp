// bitrift-train: everything that needs LibTorch and MPI.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <CLI/CLI.hpp>

#include "checkpoint_study.h"
#include "commands.h"
#include "complaint.h"
#include "core/error.h"
#include "core/log.h"
#include "launch/launch.h"
#include "mpi/environment.h"
#include "options/one_of.h"
#include "options/whole_number.h"
#include "record/provenance.h"
#include "strike_options.h"

namespace bitrift::cli {
namespace {

void add_run_options(CLI::App* command, Arguments& arguments, const char* usual) {
  auto* steps = command->add_option("--steps", arguments.steps, "Stop after this many optimizer steps")
                    ->check(whole_number(0, 1'000'000'000'000))
                    ->type_name("N");
  command
      ->add_option(
          "--epochs", arguments.epochs,
          "Stop after this many epochs (default: as in the spec). When training resumes within an epoch, "
          "the rest of that epoch counts as one")
      ->check(whole_number(0, 1'000'000'000'000))
      ->type_name("N")
      ->excludes(steps);
  command->add_option("--trace", arguments.trace, "Write every step to this JSON Lines file");
  command->add_flag("--json", arguments.json, "Print the result as JSON");
  command->add_flag("--check-replicas", arguments.check_replicas,
                    "Compare the states of all replicas after every step");
  add_parallel_options(command, arguments.parallel, usual);
  add_checkpoint_options(command, arguments.checkpoints);
  add_recovery_options(command, arguments.recovery);
  add_link_options(command, arguments.links);
  add_strike_option(command, arguments.strikes);
  add_format_option(command, arguments.format);
  // Both for run_with_relaunches().
  command->add_option("--relaunched", arguments.relaunched)->group("");
  command->add_flag("--relaunched-from-start", arguments.relaunched_from_start)->group("");
}

constexpr const char* footer =
    "With more than one rank, the program restarts itself under mpirun, unless it already runs under one. "
    "The "
    "environment variable BITRIFT_MPIRUN selects another mpirun.\n"
    "Exit codes: 0 success, 1 training stopped (non-finite loss or metric, an alarm, or a rank that was "
    "killed), 2 usage or input error, 3 internal error in bitrift, 75 asked to end early by SIGTERM or "
    "SIGUSR1 (saved: resume it), 128 + N ended by signal N (130 SIGINT)";

std::string with_example(const std::string& command) {
  return "Example:\n  bitrift-train " + command + "\n\n" + footer;
}

CLI::App* add_resume(CLI::App& app, Arguments& arguments) {
  CLI::App* resume_command = app.add_subcommand(
      "resume",
      "Resume training from a checkpoint (default: serially, until the epochs of its spec are done)");
  resume_command
      ->add_option("CHECKPOINT", arguments.input,
                   "Checkpoint, written under any parallel strategy, or a folder: its newest valid one")
      ->required();
  resume_command->add_option(
      "-o,--output", arguments.output,
      "Checkpoint to write at the end (with --steps 0: immediately), or a folder (DIR/) for one "
      "file of each step at which one is written");
  resume_command->add_option(
      "--replica-file", arguments.replica_files,
      "R=FILE: load FILE into replica R (from 0) instead of CHECKPOINT; see --sync-on-resume; repeatable");
  resume_command
      ->add_option("--precision", arguments.precision,
                   "Convert the state and continue in this precision (default: as saved)")
      ->check(one_of<record::Precision>());
  resume_command
      ->add_option("--batch-size", arguments.batch_size,
                   "Continue with batches of this size, over all replicas (default: as saved)")
      ->check(whole_number(1, 1'000'000'000))
      ->type_name("N");
  add_guard_options(resume_command, arguments.guards);
  add_run_options(resume_command, arguments, "serial");
  resume_command->footer(
      with_example("resume ckpt.h5 -o final.h5 --epochs 1\n  bitrift-train resume run/ -o run/ "
                   "--checkpoint-every 100 --checkpoint-keep 3"));
  return resume_command;
}

void add_serve(CLI::App& app, Arguments& arguments) {
  CLI::App* serve_command =
      app.add_subcommand("serve", "Run the trials that a campaign driver sends (started by the driver)");
  serve_command
      ->add_option("BASE", arguments.input, "Base checkpoint; each trial loads an altered copy of it")
      ->required();
  serve_command->add_option("--connect", arguments.connect, "Name of the driver's abstract socket")
      ->required();
  serve_command
      ->add_option("--drill", arguments.drill,
                   "ignore-file: always load BASE, to show that the canaries catch it")
      ->check(CLI::IsMember({"ignore-file"}));
  serve_command->add_option("--recovery", arguments.serve_recovery,
                            "What runs do when a rank fails (JSON; see docs/spec.md, \"arms[].recovery\")");
  serve_command
      ->add_option("--reserve", arguments.reserve,
                   "Idle processes that replace lost ones between two runs (default: 0)")
      ->check(whole_number(0, 65536))
      ->type_name("N");
  serve_command->add_flag("--detector", arguments.detector, "Notice stopped processes, not only ended ones");
  add_parallel_options(serve_command, arguments.parallel, "serial");
  add_guard_options(serve_command, arguments.guards);
}

int run(int count, char** words) {
  CLI::App app(
      "Train models with LibTorch and MPI, resume training from checkpoints, and run the trials of a "
      "campaign.",
      "bitrift-train");
  app.set_version_flag("--version", std::string("bitrift-train ") + record::bitrift_version());
  app.require_subcommand(1);
  app.footer(footer);
  Arguments arguments;
  arguments.words.assign(words + 1, words + count);

  CLI::App* train_command = app.add_subcommand("train", "Train a model from a spec and save a checkpoint");
  train_command->add_option("SPEC", arguments.input, "Training spec (JSON; see docs/spec.md)")->required();
  train_command
      ->add_option(
          "-o,--output", arguments.output,
          "Checkpoint to write, or a folder (DIR/) for one file of each step at which one is written")
      ->required();
  add_run_options(train_command, arguments, "as in the spec");
  train_command->footer(
      with_example("train campaigns/train-fashion-resnet20.json -o ckpt.h5\n"
                   "  bitrift-train train campaigns/train-fashion-resnet20.json -o run/ --checkpoint-every "
                   "auto --mtbf 86400"));

  const CLI::App* resume_command = add_resume(app, arguments);

  CLI::App* describe_command = app.add_subcommand(
      "describe", "Show the model of a spec: layers, parameters, costs and pipeline stages");
  describe_command->add_option("SPEC", arguments.input, "Training spec (JSON; see docs/spec.md)")->required();
  describe_command->add_flag("--json", arguments.json, "Print JSON instead of a table");
  add_parallel_options(describe_command, arguments.parallel, "as in the spec");
  describe_command->footer(with_example("describe campaigns/train-fashion-resnet20.json"));

  add_serve(app, arguments);

  StudyArguments study;
  study.command = {"bitrift-train"};
  study.command.insert(study.command.end(), words + 1, words + count);
  const CLI::App* study_command = add_checkpoint_study(
      app, study, with_example("checkpoint-study campaigns/checkpoint-study/quick.json -o study"));

  try {
    app.parse(count, words);
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    complain(fmt::format("{} (see bitrift-train --help)", error.what()));
    return 2;
  }
  if (study_command->parsed()) return checkpoint_study(study);
  arguments.fresh = train_command->parsed();
  if (arguments.fresh) return train(arguments);
  if (describe_command->parsed()) return describe(arguments);
  return resume_command->parsed() ? resume(arguments) : serve(arguments);
}

int guarded(int count, char** words) {
  try {
    return run(count, words);
  } catch (const std::exception& error) {
    const Complaint complaint = complaint_about(error);
    complain(complaint.text);
    return complaint.exit_code;
  }
}

// Every step allocates what the step before freed. The C library's defaults give large blocks back to the
// system at once, so each step would fault them in again, zeroed, page by page.
void keep_memory() {
#if defined(__GLIBC__)
  constexpr int largest_kept_block = 1 << 28;
  mallopt(M_MMAP_THRESHOLD, largest_kept_block);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

// If a rank is killed while it tells the result, the next one tells it again. A single write is hardly ever
// cut short. The terminal that mpirun gives to a rank takes 2 KiB at a time, instead of 1 KiB without this.
void write_at_once() {
  constexpr std::size_t longer_than_a_result = 1 << 16;
  std::setvbuf(stdout, nullptr, _IOFBF, longer_than_a_result);
}

// Skips the destructors of LibTorch's static objects, which take a sixth of a short command's time. By now,
// bitrift has nothing left to write or to remove.
[[noreturn]] void leave(int code) {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    complain("cannot write to standard output");
    if (code == 0) code = 2;
  }
  if (mpi::launched_rank() == 0) leave_exit_code(code);
  std::_Exit(code);
}

}  // namespace
}  // namespace bitrift::cli

int main(int count, char** words) {
  // A file size limit is then an error that write(2) returns, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  bitrift::cli::keep_memory();
  bitrift::cli::write_at_once();
  bitrift::start_logging("bitrift-train");
  bitrift::cli::leave(bitrift::cli::guarded(count, words));
}
