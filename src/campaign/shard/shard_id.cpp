#include "campaign/shard/shard_id.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/error.h"

namespace bitrift::campaign {
namespace {

constexpr int most_shards = 10000;

std::optional<int> number_of(std::string_view text) {
  int value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    return std::nullopt;
  return value;
}

int of_slurm(const char* name, std::optional<int> otherwise = std::nullopt) {
  const char* text = std::getenv(name);
  if (text == nullptr && otherwise) return *otherwise;
  if (text == nullptr) {
    fail(ErrorCode::bad_input,
         "--shard slurm: {} is not set: this is not a task of a Slurm job array; submit with `sbatch "
         "--array=1-N`, "
         "or give --shard I/N",
         name);
  }
  if (const auto value = number_of(text)) return *value;
  fail(ErrorCode::bad_input, "--shard slurm: {}={} is not a number; give --shard I/N", name, text);
}

ShardId slurm_shard() {
  const int id = of_slurm("SLURM_ARRAY_TASK_ID");
  const int first = of_slurm("SLURM_ARRAY_TASK_MIN");
  const int last = of_slurm("SLURM_ARRAY_TASK_MAX", id);
  const int count = of_slurm("SLURM_ARRAY_TASK_COUNT");
  const int step = of_slurm("SLURM_ARRAY_TASK_STEP", 1);
  const bool range = step > 0 && count > 0 && count <= most_shards && (last - first) / step + 1 == count &&
                     (id - first) % step == 0 && id >= first && id <= last;
  if (!range) {
    fail(ErrorCode::bad_input,
         "--shard slurm: task {} of {} tasks from {} to {} does not determine a shard: submit a whole range "
         "such as "
         "--array=1-{}, or give --shard I/N",
         id, count, first, last, count);
  }
  return {(id - first) / step + 1, count};
}

}  // namespace

std::string ShardId::text() const { return fmt::format("{}/{}", index, count); }

std::string ShardId::folder() const { return fmt::format("{}-of-{}", index, count); }

ShardId parse_shard(const std::string& text) {
  if (text == "slurm") return slurm_shard();
  const auto slash = text.find('/');
  const auto index = number_of(std::string_view(text).substr(0, slash));
  const auto count =
      slash == std::string::npos ? std::nullopt : number_of(std::string_view(text).substr(slash + 1));
  if (!index || !count || *count < 1 || *count > most_shards) {
    fail(ErrorCode::bad_input,
         "--shard {}: expected I/N with I from 1 to N (at most {}), such as 2/3, or slurm", text,
         most_shards);
  }
  if (*index < 1 || *index > *count) {
    fail(
        ErrorCode::bad_input,
        "--shard {}: shards count from 1: 1/{} to {}/{}; `--shard slurm` takes the number from any job array",
        text, *count, *count, *count);
  }
  return {*index, *count};
}

bool in_turn(record::TrialKind kind) {
  return kind != record::TrialKind::control && kind != record::TrialKind::canary;
}

bool takes(const ShardId& shard, const RunKey& key) {
  if (!in_turn(key.kind)) return true;
  const auto count = static_cast<std::uint64_t>(shard.count);
  return key.id.draw % count == static_cast<std::uint64_t>(shard.index - 1);
}

std::vector<RunKey> preparation_of(const ShardId& shard, const Plan& plan) {
  std::vector<RunKey> keys;
  for (const design::Arm& arm : plan.spec().arms) {
    for (const auto& chain : plan.preparation(arm.name)) {
      for (const RunKey& key : chain) {
        if (takes(shard, key)) keys.push_back(key);
      }
    }
  }
  return keys;
}

std::vector<RunKey> trials_of(const ShardId& shard, const record::Round& round) {
  std::vector<RunKey> keys;
  std::uint64_t position = 0;
  const auto count = static_cast<std::uint64_t>(shard.count);
  for (const std::string& arm : round.arms) {
    const bool joins = std::find(round.joining.begin(), round.joining.end(), arm) != round.joining.end();
    for (const record::StratumDraws& cell : round.strata) {
      for (std::uint64_t draw = joins ? 0 : cell.first_draw; draw < cell.first_draw + cell.draws; ++draw) {
        if (position++ % count != static_cast<std::uint64_t>(shard.index - 1)) continue;
        keys.push_back({record::TrialKind::trial, {arm, cell.stratum.name, draw}});
      }
    }
  }
  return keys;
}

}  // namespace bitrift::campaign
