#include "campaign/commands/merge.h"

#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "campaign/commands/status.h"
#include "campaign/plan/ends.h"
#include "commands.h"
#include "record/json/json.h"

namespace bitrift::cli {
namespace {

struct Arguments {
  std::string folder;
  bool json = false;
};

void print_missing(const campaign::Status& status) {
  if (!status.has_base) fmt::print("missing: the base, and everything derived from it\n");
  for (const campaign::ShardStatus& shard : status.shards) {
    if (shard.done < shard.planned) {
      fmt::print("missing: {} of the {} runs of shard {} ({})\n", shard.planned - shard.done, shard.planned,
                 shard.shard, shard.state);
    }
  }
  if (!status.decided && !status.rounds.empty()) {
    fmt::print("missing: the rounds planned from round {}\n", status.rounds.back().number);
  }
}

int merge(const Arguments& arguments) {
  const campaign::Layout layout{arguments.folder};
  campaign::Merged merged;
  try {
    merged = campaign::merge_shards(layout);
  } catch (const campaign::Misbehaviour& problem) {
    fmt::print(stderr, "bitrift: {}\n", problem.what());
    return 1;
  }
  const campaign::Status status = campaign::read_status(layout.root);
  if (arguments.json) {
    record::Json document = to_json(status);
    document["merged"] = {{"rows", merged.rows},
                          {"journals", merged.starts},
                          {"doubles", merged.doubles},
                          {"retracted", merged.retracted}};
    fmt::print("{}\n", document.dump(2));
    return 0;
  }
  fmt::print("{}: {} rows from {} journals of {} shards; {} doubles dropped, {} rows retracted\n",
             layout.journal().string(), merged.rows, merged.starts, status.shards.size(), merged.doubles,
             merged.retracted);
  print_missing(status);
  return 0;
}

}  // namespace

void add_merge(CLI::App& parent, ExitCode& exit_code) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand(
      "merge", "Merge the journals of all shards into DIR/trials.jsonl, and list what is missing");
  command->add_option("DIR", arguments->folder, "folder of a campaign that was run with --shard")->required();
  command->add_flag("--json", arguments->json,
                    "print JSON: the output of `status --json`, and what was merged");
  command->footer("Example:\n  bitrift campaign merge results/study\n\n" + std::string(checking_exit_codes));
  command->callback([arguments, &exit_code] { exit_code.value = merge(*arguments); });
}

}  // namespace bitrift::cli
