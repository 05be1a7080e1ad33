#include "run_report.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/ranges.h>

#include "core/log.h"

namespace bitrift::cli {
namespace {

void print_table(const record::RunResult& result) {
  const bool evaluated = std::any_of(result.replicas.begin(), result.replicas.end(),
                                     [](const auto& evaluations) { return !evaluations.empty(); });
  if (evaluated) {
    fmt::print("{:>7} {:>7} {:>9} {:>11} {:>10} {:>10} {:>9}\n", "replica", "epoch", "step", "train loss",
               "train acc", "test loss", "test acc");
  }
  for (std::size_t r = 0; r < result.replicas.size(); ++r) {
    for (const record::Evaluation& e : result.replicas[r]) {
      const auto cell = [](const std::optional<double>& value, int digits) {
        return value ? fmt::format("{:.{}f}", *value, digits) : std::string("-");
      };
      fmt::print("{:>7} {:>7} {:>9} {:>11} {:>10} {:>10} {:>9}\n", r, e.epoch, e.step, cell(e.train_loss, 6),
                 cell(e.train_accuracy, 4), cell(e.test_loss, 6), cell(e.test_accuracy, 4));
    }
  }
  if (!result.final_digest.empty()) fmt::print("state digest {}\n", result.final_digest);
}

void print_recovery(const record::Recovery& recovery) {
  std::string what;
  if (!recovery.failed.empty()) {
    what = fmt::format("recovered by {} from the loss of rank {}", name_of(recovery.kind),
                       fmt::join(recovery.failed, " and "));
  } else if (recovery.kind == record::RecoveryKind::relaunch) {
    what = "launched again after the loss of a rank";
  } else {
    what = recovery.ranks_after > recovery.ranks_before ? "expanded again" : "regrouped, no work was lost";
  }
  fmt::print("{}: {} -> {} ranks, {}{} steps lost, {} redone, {:.0f} ms\n", what, recovery.ranks_before,
             recovery.ranks_after,
             recovery.state ? fmt::format("state from {}, ", name_of(*recovery.state)) : "",
             recovery.steps_lost, recovery.steps_redone, recovery.times.total() * 1000);
}

void print_altered(const record::AlteredMessage& altered) {
  fmt::print("altered message {}: link from chip {},{} to {},{}, chunk {}, {}: {:#x} -> {:#x}\n",
             to_text(altered.fault), altered.from.row, altered.from.column, altered.to.row, altered.to.column,
             altered.chunk, name_of(altered.kind), altered.old_pattern, altered.new_pattern);
}

void print_value(const record::AlteredValue& altered) {
  fmt::print("struck {}, {}: {:#x} -> {:#x}{}\n", described(altered.fault), altered.dtype,
             altered.old_pattern, altered.new_pattern,
             altered.times > 1 ? fmt::format(", {} times", altered.times) : "");
}

void print_link(const record::LinkReport& failed) {
  const auto ms = [](const std::optional<double>& seconds) {
    return seconds ? fmt::format("{:.3g} ms", *seconds * 1000) : std::string("-");
  };
  const bool slow = failed.link.kind == record::LinkFailure::slow;
  fmt::print("{} link {} from step {} on: {}, steps took {} before and {} from then on (medians)\n",
             name_of(failed.link.kind), record::name_of_link(failed.link), failed.link.step,
             slow                  ? fmt::format("{} messages late", failed.delayed)
             : failed.plan_seconds ? "planned again in " + ms(failed.plan_seconds)
                                   : "not planned again",
             ms(failed.step_seconds_before), ms(failed.step_seconds_behind));
}

void print_checkpoints(const record::Json& times) {
  fmt::print("checkpoints on the way: {}, each stopping the training for {:.3g} s (median)",
             times.at("written").get<std::int64_t>(), times.at("blocking").at("median").get<double>());
  if (times.contains("interval"))
    fmt::print(", most recently one every {} steps", times["interval"].at("steps").get<std::int64_t>());
  fmt::print("\n");
}

}  // namespace

void report(const Arguments& arguments, const record::Parallel& parallel, const record::RunResult& result,
            const Saved& saved) {
  if (!arguments.json) {
    print_table(result);
    for (const record::AlteredMessage& altered : result.altered_messages) print_altered(altered);
    for (const record::AlteredValue& altered : result.altered_values) print_value(altered);
    for (const record::LinkReport& failed : result.failed_links) print_link(failed);
    if (result.status != record::RunStatus::done) return;
    for (const record::Recovery& recovery : result.recoveries) print_recovery(recovery);
    if (saved.on_the_way) print_checkpoints(*saved.on_the_way);
    if (!saved.file.empty()) fmt::print("saved {}\n", saved.file.string());
    return;
  }
  record::Json value = record::to_json(result);
  value["parallel"] = record::to_json(parallel);
  if (saved.load_seconds) value["load_seconds"] = *saved.load_seconds;
  if (saved.seconds) value["save_seconds"] = *saved.seconds;
  if (saved.on_the_way) value["checkpoint_seconds"] = *saved.on_the_way;
  if (result.status == record::RunStatus::done && !saved.file.empty())
    value["checkpoint"] = saved.file.string();
  fmt::print("{}\n", value.dump(2));
}

}  // namespace bitrift::cli
