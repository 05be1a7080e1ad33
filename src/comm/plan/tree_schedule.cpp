#include "comm/plan/tree_schedule.h"

#include <algorithm>

#include "comm/plan/schedule_builder.h"
#include "core/error.h"

namespace bitrift::comm {
namespace {

struct Edge {
  std::uint16_t child, parent;
};

/// The edges of a tree by the child's depth; the root's is 0, so the first list is empty.
using Levels = std::vector<std::vector<Edge>>;

Levels levels_of(const Topology& topology, const RootedTree& tree, std::size_t number) {
  const auto chips = static_cast<std::size_t>(topology.chips());
  if (tree.parent.size() != chips || tree.root < 0 || tree.root >= topology.chips() ||
      !topology.alive(tree.root) || tree.parent[static_cast<std::size_t>(tree.root)] != -1) {
    fail(ErrorCode::bad_input,
         "tree {}: expected a live root without a parent, and a parent for each of {} chips", number, chips);
  }
  std::vector<std::vector<int>> children(chips);
  for (int chip = 0; chip < topology.chips(); ++chip) {
    const int parent = tree.parent[static_cast<std::size_t>(chip)];
    if (chip == tree.root) continue;
    if (!topology.alive(chip)) {
      if (parent != -1)
        fail(ErrorCode::bad_input, "tree {}: {} is dead and has a parent", number, topology.name(chip));
      continue;
    }
    if (parent < 0 || parent >= topology.chips() || !topology.linked(chip, parent)) {
      fail(ErrorCode::bad_input, "tree {}: {} has no parent over a live link", number, topology.name(chip));
    }
    children[static_cast<std::size_t>(parent)].push_back(chip);
  }
  Levels levels(1);
  std::vector<int> level{tree.root};
  std::size_t reached = 0;
  while (!level.empty()) {
    reached += level.size();
    std::vector<int> next;
    std::vector<Edge> edges;
    for (const int parent : level) {
      for (const int child : children[static_cast<std::size_t>(parent)]) {
        next.push_back(child);
        edges.push_back({static_cast<std::uint16_t>(child), static_cast<std::uint16_t>(parent)});
      }
    }
    level = std::move(next);
    if (!edges.empty()) levels.push_back(std::move(edges));
  }
  if (reached != topology.live().size()) {
    fail(ErrorCode::bad_input, "tree {}: reaches {} of {} live chips; its parents form a circle", number,
         reached, topology.live().size());
  }
  return levels;
}

/// What a tree does with one of its chunks at a time that is counted from when the chunk begins.
void append_sends(ScheduleBuilder& builder, const Levels& levels, std::size_t time, std::uint32_t chunk) {
  const std::size_t depth = levels.size() - 1;
  if (time < depth) {
    for (const Edge& edge : levels[depth - time])
      builder.append({edge.child, edge.parent, chunk, SendKind::add});
  } else {
    for (const Edge& edge : levels[time - depth + 1])
      builder.append({edge.parent, edge.child, chunk, SendKind::copy});
  }
}

}  // namespace

Schedule tree_schedule(const Topology& topology, std::span<const RootedTree> trees,
                       std::uint32_t chunks_per_tree) {
  topology.require_connected();
  if (trees.empty() || chunks_per_tree == 0)
    fail(ErrorCode::bad_input, "a schedule of trees needs a tree and a chunk");
  if (trees.size() > most_chunks / chunks_per_tree) {
    fail(ErrorCode::unsupported, "{} trees with {} chunks each; at most {} chunks in all are possible",
         trees.size(), chunks_per_tree, most_chunks);
  }
  std::vector<Levels> levels;
  std::size_t most_depth = 0;
  for (const RootedTree& tree : trees) {
    levels.push_back(levels_of(topology, tree, levels.size()));
    most_depth = std::max(most_depth, levels.back().size() - 1);
  }
  ScheduleBuilder builder(topology, Scheme::trees,
                          static_cast<std::uint32_t>(trees.size()) * chunks_per_tree);
  for (std::size_t time = 0; time < 2 * most_depth + chunks_per_tree; ++time) {
    for (std::uint32_t tree = 0; tree < levels.size(); ++tree) {
      const std::size_t length = 2 * (levels[tree].size() - 1);
      // Older chunks first: they are nearer to their ends.
      for (std::size_t k = time < length ? 0 : time - length + 1; k < chunks_per_tree && k <= time; ++k) {
        append_sends(builder, levels[tree], time - k, tree * chunks_per_tree + static_cast<std::uint32_t>(k));
      }
    }
  }
  return builder.schedule();
}

}  // namespace bitrift::comm
