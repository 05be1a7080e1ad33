#include "h5map/structures.h"

#include <algorithm>
#include <queue>

namespace bitrift::h5map {
namespace {

bool is_value(const std::string& kind) { return kind == "attribute value" || kind.rfind("raw data", 0) == 0; }

}  // namespace

void Structures::set_owner(std::string_view path) {
  owners_.emplace_back(path);
  owner_ = static_cast<std::uint32_t>(owners_.size() - 1);
}

void Structures::add(std::uint64_t first, std::uint64_t bytes, std::string_view kind) {
  if (bytes == 0) return;
  auto known = std::find(kinds_.begin(), kinds_.end(), kind);
  if (known == kinds_.end()) known = kinds_.emplace(kinds_.end(), kind);
  const auto index = static_cast<std::uint32_t>(known - kinds_.begin());
  // A reader often takes the head of a structure, then all of it.
  if (!runs_.empty() && runs_.back().kind == index && runs_.back().owner == owner_ &&
      first >= runs_.back().first && first <= runs_.back().end) {
    runs_.back().end = std::max(runs_.back().end, first + bytes);
    return;
  }
  runs_.push_back({first, first + bytes, index, owner_, static_cast<std::uint32_t>(runs_.size())});
}

/// Cuts overlaps: at every byte the run of the lowest order stays.
void Structures::flatten(std::vector<Run>& runs) {
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
  const auto later = [](const Run& a, const Run& b) { return a.order > b.order; };
  std::priority_queue<Run, std::vector<Run>, decltype(later)> open(later);
  std::vector<Run> flat;
  std::uint64_t at = 0;
  std::size_t next = 0;
  while (next < runs.size() || !open.empty()) {
    while (!open.empty() && open.top().end <= at) open.pop();
    if (open.empty()) {
      if (next == runs.size()) break;
      at = std::max(at, runs[next].first);
    }
    while (next < runs.size() && runs[next].first <= at) open.push(runs[next++]);
    if (open.empty() || open.top().end <= at) continue;
    Run piece = open.top();
    piece.first = at;
    if (next < runs.size()) piece.end = std::min(piece.end, runs[next].first);
    at = piece.end;
    if (!flat.empty() && flat.back().end == piece.first && flat.back().kind == piece.kind &&
        flat.back().owner == piece.owner) {
      flat.back().end = piece.end;
    } else {
      flat.push_back(piece);
    }
  }
  runs = std::move(flat);
}

std::vector<Extent> Structures::map(std::uint64_t file_bytes) const {
  std::vector<Run> runs = runs_;
  const auto last = static_cast<std::uint32_t>(runs.size());
  for (Run& run : runs) {
    run.end = std::min(run.end, file_bytes);
    if (!is_value(kinds_[run.kind])) run.order += last;
  }
  std::erase_if(runs, [](const Run& run) { return run.first >= run.end; });
  flatten(runs);
  std::vector<Extent> extents;
  std::uint64_t at = 0;
  for (const Run& run : runs) {
    if (run.first > at) extents.push_back({at, run.first, "unused", ""});
    extents.push_back({run.first, run.end, kinds_[run.kind], owners_[run.owner]});
    at = run.end;
  }
  if (at < file_bytes) extents.push_back({at, file_bytes, "unused", ""});
  return extents;
}

}  // namespace bitrift::h5map
