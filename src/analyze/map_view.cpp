#include "analyze/map_view.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/ranges.h>

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

constexpr std::size_t widest_name = 30;
constexpr std::size_t most_worst = 5;

std::uint64_t map_count_of(const Group& group, RateOf what) {
  switch (what) {
    case RateOf::masked:
      return group.counts.at(OutcomeClass::masked);
    case RateOf::sdc:
      return group.counts.at(OutcomeClass::sdc);
    case RateOf::crash:
      return group.counts.at(OutcomeClass::crash);
    case RateOf::harmed:
      break;
  }
  return group.counts.at(OutcomeClass::sdc) + group.counts.at(OutcomeClass::crash);
}

MapCell map_cell_of(const Group& group, RateOf what, IntervalKind kind) {
  MapCell cell;
  cell.map = group.key;
  cell.layer = group.key.at("layer");
  cell.bit = static_cast<unsigned>(std::stoul(group.key.at("bit")));
  cell.map.erase("layer");
  cell.map.erase("bit");
  cell.n = group.trials;
  cell.bits = group.bits;
  if (group.trials == 0) return cell;
  const Rate rate = rate_of(group.rates, what);
  cell.estimate = rate.estimate;
  cell.interval = rate.interval(kind);
  cell.count = map_count_of(group, what);
  return cell;
}

const char* words_for(RateOf what) { return what == RateOf::harmed ? "SDC or crash" : name_of(what); }

// Tenths of the rate, rounded down.
char symbol(const MapCell& cell) {
  if (!cell.estimate) return '.';
  if (cell.count == 0) return '-';
  return static_cast<char>('0' + std::min(9, static_cast<int>(10 * *cell.estimate + 1e-9)));
}

std::string short_name(const std::string& name) {
  if (name.size() <= widest_name) return name;
  return ".." + name.substr(name.size() - widest_name + 2);
}

std::string map_title(const std::map<std::string, std::string>& map) {
  std::vector<std::string> words;
  words.reserve(map.size());
  for (const auto& [key, value] : map) words.push_back(value);
  return fmt::format("{}", fmt::join(words, ", "));
}

// One map: rows are layers, columns bits.
std::string map_grid(const std::vector<const MapCell*>& cells) {
  std::vector<std::string> layers;
  std::set<unsigned, std::greater<>> bits;
  std::map<std::pair<std::string, unsigned>, char> symbols;
  std::size_t width = 5;
  for (const MapCell* cell : cells) {
    if (std::find(layers.begin(), layers.end(), cell->layer) == layers.end()) layers.push_back(cell->layer);
    bits.insert(cell->bit);
    symbols[{cell->layer, cell->bit}] = symbol(*cell);
    width = std::max(width, short_name(cell->layer).size());
  }
  std::string tens, units;
  for (const unsigned bit : bits) {
    tens += bit < 10 ? ' ' : static_cast<char>('0' + bit / 10);
    units += static_cast<char>('0' + bit % 10);
  }
  std::string text = fmt::format("{:<{}}  {}\n{:<{}}  {}\n", "bit", width, tens, "layer", width, units);
  for (const std::string& layer : layers) {
    std::string line;
    for (const unsigned bit : bits) {
      const auto at = symbols.find({layer, bit});
      line += at == symbols.end() ? ' ' : at->second;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:<{}}  {}\n", short_name(layer), width, line);
  }
  return text;
}

std::string worst_cells(const VulnerabilityMap& map) {
  std::vector<const MapCell*> cells;
  for (const MapCell& cell : map.cells) {
    if (cell.count > 0) cells.push_back(&cell);
  }
  std::stable_sort(cells.begin(), cells.end(), [](const MapCell* a, const MapCell* b) {
    return std::pair(a->interval.low, a->estimate) > std::pair(b->interval.low, b->estimate);
  });
  if (cells.size() > most_worst) cells.resize(most_worst);
  if (cells.empty()) return "";
  std::string text = "Worst by the lower end of the interval:\n";
  for (const MapCell* cell : cells) {
    text +=
        fmt::format("  {}, {} bit {}: {:.1f} % [{:.1f}, {:.1f}], {} of {} trials, {} bits\n",
                    map_title(cell->map), cell->layer, cell->bit, 100 * *cell->estimate,
                    100 * cell->interval.low, 100 * cell->interval.high, cell->count, cell->n, cell->bits);
  }
  return text;
}

}  // namespace

std::vector<std::string> map_dimensions() { return {"arm", "state", "layer", "bit"}; }

VulnerabilityMap map_view(const Summary& summary, RateOf what) {
  VulnerabilityMap map;
  map.what = what;
  map.kind = summary.options.interval;
  map.confidence = summary.each_confidence;
  for (const Group& group : summary.groups) map.cells.push_back(map_cell_of(group, what, map.kind));
  return map;
}

std::string map_table(const VulnerabilityMap& map) {
  std::vector<std::pair<std::map<std::string, std::string>, std::vector<const MapCell*>>> maps;
  for (const MapCell& cell : map.cells) {
    if (maps.empty() || maps.back().first != cell.map) maps.push_back({cell.map, {}});
    maps.back().second.push_back(&cell);
  }
  std::string text;
  for (const auto& [key, cells] : maps) text += map_title(key) + "\n" + map_grid(cells) + "\n";
  text += fmt::format(
      "Rate of {} in tenths, rounded down: 0 is below 10 %, 9 is 90 % or more.\n"
      "-: no such trial, .: no trial at all, blank: no bit. Intervals: --json.\n\n",
      words_for(map.what));
  return text + worst_cells(map);
}

record::Json to_json(const VulnerabilityMap& map) {
  record::Json cells = record::Json::array();
  for (const MapCell& cell : map.cells) {
    record::Json value = cell.map;
    value["layer"] = cell.layer;
    value["bit"] = cell.bit;
    value["estimate"] = cell.estimate ? record::number_to_json(*cell.estimate) : record::Json();
    value["low"] = record::number_to_json(cell.interval.low);
    value["high"] = record::number_to_json(cell.interval.high);
    value["count"] = cell.count;
    value["n"] = cell.n;
    value["bits"] = cell.bits;
    cells.push_back(std::move(value));
  }
  return {{"view", "map"},
          {"outcome", map.what},
          {"interval", map.kind},
          {"confidence", record::number_to_json(map.confidence)},
          {"cells", cells}};
}

}  // namespace bitrift::analyze
