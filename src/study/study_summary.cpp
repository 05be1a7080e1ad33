#include "study/study_summary.h"

#include <algorithm>

#include "analyze/rates/picks.h"
#include "analyze/rates/stratified.h"
#include "analyze/rates/total_interval.h"
#include "study/part/flip_rate.h"

namespace bitrift::study {
namespace {

using record::Json;

std::size_t index_of(DamageOutcome outcome) { return static_cast<std::size_t>(outcome); }

// "local header of w.npy" becomes a local header; "end of the archive" stays.
std::string without_owner(const std::string& structure) {
  const std::size_t cut = structure.find(" of ");
  const bool whole = cut == std::string::npos || structure.compare(cut, 8, " of the ") == 0;
  return whole ? structure : structure.substr(0, cut);
}

// The flips of one stratum in the order of their draws.
struct Draws {
  std::vector<DamageOutcome> outcomes;
  std::uint64_t missing = 0;  ///< see DamageCell
};

// Both strata weighted by their bits, with the intervals of campaigns (docs/statistics.md).
OutcomeRates file_rates(const std::vector<DamageCell>& cells, const std::map<BitStratum, Draws>& draws,
                        const StudySpec& spec) {
  analyze::PickedRound round;
  round.fixed = true;
  for (const DamageCell& cell : cells) {
    round.first.push_back(0);
    round.share.push_back(cell.flips);
  }
  round.picks = analyze::picks_shuffled(spec.damage.seed, 0, round.share);
  OutcomeRates rates;
  for (std::size_t i = 0; i < damage_outcomes; ++i) {
    std::vector<analyze::StratumCount> counts;
    std::vector<analyze::StratumHits> hits;
    for (const DamageCell& cell : cells) {
      counts.push_back({cell.bits, cell.counts[i], cell.flips});
      hits.push_back({.bits = cell.bits, .hits = {}});
      for (const DamageOutcome outcome : draws.at(cell.stratum).outcomes)
        hits.back().hits.push_back(index_of(outcome) == i ? 1 : 0);
    }
    const analyze::StratifiedRate rate = analyze::stratified_rate(counts, spec.confidence);
    const analyze::Interval anytime = analyze::total_interval({round}, hits, spec.confidence);
    rates[i] = {rate.estimate, analyze::stretched_to(rate.estimate, anytime), rate.wilson,
                rate.clopper_pearson};
  }
  return rates;
}

void add_damage(KindSummary& kind, const std::map<BitStratum, Draws>& draws, const FileBits& bits,
                const StudySpec& spec) {
  for (const auto& [stratum, drawn] : draws) {
    DamageCell cell{stratum, bits.bits(stratum), drawn.outcomes.size()};
    cell.missing = drawn.missing;
    for (const DamageOutcome outcome : drawn.outcomes) ++cell.counts[index_of(outcome)];
    for (std::size_t i = 0; i < damage_outcomes; ++i)
      cell.rates[i] = flip_rate(cell.counts[i], cell.counts[i], cell.flips, cell.bits, spec.confidence);
    kind.cells.push_back(cell);
  }
  if (kind.cells.size() == 2) kind.file = file_rates(kind.cells, draws, spec);
}

KindSummary summarize_kind(const StudySpec& spec, const std::vector<StudyRow>& rows, const StudyFile& file) {
  KindSummary kind{file.kind, ""};
  std::map<BitStratum, Draws> draws;
  for (const StudyRow& row : rows) {
    if (row.format != file.kind.format || row.writer != file.kind.writer) continue;
    if (const auto* size = std::get_if<SizeResult>(&row.result)) kind.size = *size;
    if (const auto* saves = std::get_if<DeterminismResult>(&row.result)) kind.saves = *saves;
    const auto* damage = std::get_if<DamageResult>(&row.result);
    if (damage == nullptr) continue;
    if (damage->canary) {
      kind.canaries[*damage->canary] = damage->outcome;
      continue;
    }
    Draws& drawn = draws[damage->stratum];
    drawn.outcomes.push_back(damage->outcome);
    if (damage->missing > 0) ++drawn.missing;
    if (damage->stratum == BitStratum::metadata)
      ++kind.structures[without_owner(damage->fault->structure)][index_of(damage->outcome)];
  }
  add_damage(kind, draws, file.bits, spec);
  return kind;
}

Json counts_json(const OutcomeCounts& counts) {
  Json value;
  for (std::size_t i = 0; i < damage_outcomes; ++i) value[name_of(static_cast<DamageOutcome>(i))] = counts[i];
  return value;
}

Json rates_json(const OutcomeRates& rates) {
  Json value;
  for (std::size_t i = 0; i < damage_outcomes; ++i)
    value[name_of(static_cast<DamageOutcome>(i))] = rate_json(rates[i]);
  return value;
}

Json size_json(const SizeResult& size) {
  const auto bytes = static_cast<double>(size.bytes);
  Json value = {
      {"bytes", size.bytes},
      {"payload_bytes", size.payload_bytes},
      {"tensor_bytes", size.tensor_bytes},
      {"parameters", size.parameters},
      {"overhead", bytes / static_cast<double>(size.tensor_bytes) - 1},
      {"payload_ratio", static_cast<double>(size.payload_bytes) / static_cast<double>(size.tensor_bytes)}};
  if (size.parameters > 0) value["bytes_per_parameter"] = bytes / static_cast<double>(size.parameters);
  return value;
}

Json saves_json(const DeterminismResult& saves) {
  Json value = {{"equal", saves.equal},
                {"first_bytes", saves.first_bytes},
                {"second_bytes", saves.second_bytes},
                {"differing_bytes", saves.differing_bytes}};
  if (const auto& place = saves.first_difference) {
    value["first_difference"] = {
        {"file", place->file}, {"byte", place->byte}, {"structure", place->structure}};
  }
  return value;
}

Json damage_json(const KindSummary& kind) {
  Json value = {{"strata", Json::array()}, {"canaries", Json::object()}, {"structures", Json::object()}};
  for (const auto& [canary, outcome] : kind.canaries) value["canaries"][name_of(canary)] = outcome;
  for (const auto& [structure, counts] : kind.structures)
    value["structures"][structure] = counts_json(counts);
  for (const DamageCell& cell : kind.cells) {
    value["strata"].push_back({{"stratum", cell.stratum},
                               {"bits", cell.bits},
                               {"flips", cell.flips},
                               {"counts", counts_json(cell.counts)},
                               {"missing", cell.missing},
                               {"rates", rates_json(cell.rates)}});
  }
  if (kind.file) value["file"] = rates_json(*kind.file);
  return value;
}

}  // namespace

std::vector<KindSummary> summarize(const StudySpec& spec, const std::vector<StudyRow>& rows,
                                   const std::vector<StudyFile>& files) {
  std::vector<KindSummary> kinds;
  for (const FileKind& kind : spec.kinds()) {
    const auto file =
        std::find_if(files.begin(), files.end(), [&](const StudyFile& one) { return one.kind == kind; });
    kinds.push_back(file == files.end() ? KindSummary{kind, "not installed"}
                                        : summarize_kind(spec, rows, *file));
  }
  return kinds;
}

Json summary_json(const StudySpec& spec, const std::vector<KindSummary>& kinds) {
  Json list = Json::array();
  for (const KindSummary& kind : kinds) {
    Json value = {{"format", kind.kind.format}, {"writer", kind.kind.writer}, {"reader", "native"}};
    if (!kind.missing.empty()) value["missing"] = kind.missing;
    if (kind.size) value["size"] = size_json(*kind.size);
    if (kind.saves) value["determinism"] = saves_json(*kind.saves);
    if (!kind.cells.empty()) value["damage"] = damage_json(kind);
    list.push_back(std::move(value));
  }
  return {{"schema", "bitrift/checkpoint-study-summary/1"},
          {"name", spec.name},
          {"confidence", spec.confidence},
          {"files", std::move(list)}};
}

}  // namespace bitrift::study
