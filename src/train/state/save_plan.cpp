#include "train/state/save_plan.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <torch/version.h>

#include "record/json/json.h"
#include "train/state/checkpoint_names.h"

namespace bitrift::train {
namespace {

std::string versions() { return record::Json{{"libtorch", TORCH_VERSION}}.dump(); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Equal on every rank.
std::vector<StateTensor> share_of(const std::vector<StateTensor>& all, int rank, int ranks) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(all.size());
  for (const StateTensor& tensor : all) sizes.push_back(tensor.meta.bytes());
  const std::vector<int> owners = spread_by_size(sizes, ranks);
  std::vector<StateTensor> share;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (owners[i] == rank) share.push_back(all[i]);
  }
  return share;
}

// The tensors in `mine` that differ from replica 0's; `reference` holds the digest lines of replica 0.
std::vector<StateTensor> differing(const std::vector<StateTensor>& mine,
                                   const std::vector<std::string>& lines, const std::string& reference,
                                   int replica) {
  const std::vector<std::string> theirs = lines_of(reference);
  const std::set<std::string> known(theirs.begin(), theirs.end());
  std::vector<StateTensor> result;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (known.contains(lines[i].substr(0, lines[i].size() - 1))) continue;
    result.push_back(mine[i]);
    result.back().meta.path = replica_path(replica, mine[i].meta.path);
  }
  return result;
}

// One line says whether the optimizer has made its state, all other lines are paths.
std::string announced(const std::vector<StateTensor>& mine, Session& session) {
  std::string text = session.optimizer().has_state() ? "made\n" : "\n";
  for (const StateTensor& tensor : mine) text += tensor.meta.path + "\n";
  return text;
}

}  // namespace

namespace {

// This rank's share of the tensors that every replica has.
std::vector<StateTensor> of_replicas(const std::vector<StateTensor>& mine, const Layout& layout,
                                     bool spread) {
  const std::vector<std::string> lines = digest_lines(mine);
  std::string text;
  for (const std::string& line : lines) text += line;
  const std::vector<std::string> digests = layout.peers.allgather(state_digest(lines));
  const bool alike = std::all_of(digests.begin(), digests.end(),
                                 [&](const std::string& digest) { return digest == digests[0]; });
  if (alike && spread) return share_of(mine, layout.peers.rank(), layout.peers.size());
  if (!alike) layout.peers.broadcast(text, layout.holders[0]);
  if (layout.replica() == 0) return mine;
  return differing(mine, lines, text, layout.replica());
}

}  // namespace

std::vector<StateTensor> contribution(Session& session, const Layout& layout, bool spread) {
  std::vector<StateTensor> mine = session.tensors(layout.stage() == 0);
  if (layout.replica_count() == 1) return mine;
  if (!session.shard().sharded()) return of_replicas(mine, layout, spread);
  // No other rank has a rank's shard.
  const auto shard = std::stable_partition(mine.begin(), mine.end(), [](const StateTensor& tensor) {
    return !tensor.meta.path.starts_with(optimizer_prefix);
  });
  std::vector<StateTensor> all = of_replicas({mine.begin(), shard}, layout, spread);
  all.insert(all.end(), std::make_move_iterator(shard), std::make_move_iterator(mine.end()));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.meta.path < b.meta.path; });
  return all;
}

std::map<std::string, std::string> plan_attributes(const record::TrainingSpec& spec) {
  return {{"schema", checkpoint_schema}, {"spec", record::to_text(spec)}, {"versions", versions()}};
}

SavePlan plan_save(const std::vector<StateTensor>& mine, Session& session, const record::TrainingSpec& spec,
                   const Layout& layout) {
  const std::vector<std::string> all = layout.world.allgather(announced(mine, session));
  bool with_optimizer = false;  // a stage without parameters never makes such state
  std::vector<std::pair<std::string, int>> owners;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::vector<std::string> lines = lines_of(all[rank]);
    with_optimizer = with_optimizer || !lines.front().empty();
    for (std::size_t i = 1; i < lines.size(); ++i) owners.emplace_back(lines[i], static_cast<int>(rank));
  }
  std::sort(owners.begin(), owners.end());
  std::map<std::string, ckpt::TensorMeta> known;
  for (ckpt::TensorMeta& meta : session.file_tensors(with_optimizer))
    known.emplace(meta.path, std::move(meta));
  SavePlan plan;
  plan.attributes = plan_attributes(spec);
  for (const auto& [path, rank] : owners) {
    const std::optional<ReplicaPath> replica = parse_replica_path(path);
    plan.metas.push_back(known.at(replica ? std::string(replica->path) : path));
    plan.metas.back().path = path;
    plan.owners.push_back(rank);
    if (replica) plan.attributes[replicas_attribute] = std::to_string(layout.replica_count());
  }
  return plan;
}

}  // namespace bitrift::train
