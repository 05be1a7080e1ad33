#include "h5map/structures.h"

#include <algorithm>
#include <queue>

#include "core/error.h"

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
  // A reader often reads the head of a structure, then all of it.
  if (!runs_.empty() && runs_.back().kind == index && runs_.back().owner == owner_ &&
      first >= runs_.back().first && first <= runs_.back().end) {
    runs_.back().end = std::max(runs_.back().end, first + bytes);
    return;
  }
  runs_.push_back({first, first + bytes, index, owner_, static_cast<std::uint32_t>(runs_.size() + 1)});
}

void Structures::prevail() {
  for (auto run = runs_.rbegin(); run != runs_.rend() && run->owner == owner_; ++run) run->order = 0;
}

/// Removes overlaps: at every byte the run of the lowest order stays.
std::vector<Structures::Run> Structures::flatten(std::vector<Run> runs) {
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
  return flat;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Structures::gaps(std::uint64_t file_bytes) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps;
  std::uint64_t at = 0;
  for (const Run& run : flatten(runs_)) {
    if (run.first > at && at < file_bytes) gaps.emplace_back(at, std::min(run.first, file_bytes));
    at = run.end;
  }
  if (at < file_bytes) gaps.emplace_back(at, file_bytes);
  return gaps;
}

std::vector<Clash> Structures::clashes() const {
  const auto is_apart = [&](const Run& run) {  // compact values and attributes are inside of structures
    return kinds_[run.kind] == "raw data, contiguous" || kinds_[run.kind] == "raw data, chunk";
  };
  std::vector<Run> values, others;
  for (const Run& run : runs_) (is_apart(run) ? values : others).push_back(run);
  values = flatten(std::move(values));
  std::vector<Clash> found;
  for (const Run& other : flatten(std::move(others))) {
    auto value = std::partition_point(values.begin(), values.end(),
                                      [&](const Run& run) { return run.end <= other.first; });
    for (; value != values.end() && value->first < other.end; ++value) {
      const std::string& owner = owners_[other.owner];
      found.push_back({std::max(value->first, other.first), std::min(value->end, other.end),
                       kinds_[other.kind] + (owner.empty() ? "" : " of " + owner)});
    }
  }
  return found;
}

StructureMap Structures::map(std::uint64_t file_bytes) && {
  const auto last = static_cast<std::uint32_t>(runs_.size() + 1);
  for (Run& run : runs_) {
    run.end = std::min(run.end, file_bytes);
    if (!is_value(kinds_[run.kind])) run.order += last;
  }
  std::erase_if(runs_, [](const Run& run) { return run.first >= run.end; });
  StructureMap map;
  map.kinds_ = std::move(kinds_);
  map.owners_ = std::move(owners_);
  std::uint64_t at = 0;
  const auto unused = [&](std::uint64_t end) {
    if (at < end) map.extents_.push_back({at, end, map.kinds_[0], map.owners_[0]});
  };
  for (const Run& run : flatten(std::move(runs_))) {
    unused(run.first);
    map.extents_.push_back({run.first, run.end, map.kinds_[run.kind], map.owners_[run.owner]});
    at = run.end;
  }
  unused(file_bytes);
  return map;
}

const Extent& StructureMap::at(std::uint64_t offset) const {
  const auto behind =
      std::upper_bound(extents_.begin(), extents_.end(), offset,
                       [](std::uint64_t byte, const Extent& extent) { return byte < extent.first; });
  if (behind == extents_.begin() || offset >= std::prev(behind)->end) {
    fail(ErrorCode::internal, "byte {} lies outside of the map", offset);
  }
  return *std::prev(behind);
}

}  // namespace bitrift::h5map
