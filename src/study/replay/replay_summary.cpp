#include "study/replay/replay_summary.h"

#include "study/part/flip_rate.h"

namespace bitrift::study {
namespace {

using record::Json;

// Rows of other files, other parts and later flips do not count.
void add(ReplayedKind& kind, const StudyRow& row, std::uint64_t flips) {
  if (row.format != kind.kind.format || row.writer != kind.kind.writer) return;
  if (const auto* damage = std::get_if<DamageResult>(&row.result)) {
    if (damage->canary || damage->stratum != BitStratum::payload || damage->draw >= flips) return;
    ++kind.flips;
    if (damage->outcome == DamageOutcome::silently_wrong) ++kind.undetected;
  } else if (const auto* replay = std::get_if<ReplayResult>(&row.result)) {
    if (replay->reason) {
      ++kind.counts.at(static_cast<std::size_t>(record::class_of(*replay->reason)));
    } else {
      ++kind.not_replayed;
    }
  }
}

}  // namespace

std::vector<ReplayedKind> summarize_replays(const StudySpec& spec, const std::vector<StudyRow>& rows,
                                            const std::vector<StudyFile>& files) {
  std::vector<ReplayedKind> kinds;
  if (!spec.has(StudyPart::replay)) return kinds;
  for (const StudyFile& file : files) {
    ReplayedKind kind{file.kind, file.bits.bits(BitStratum::payload)};
    for (const StudyRow& row : rows) add(kind, row, spec.replay.flips);
    if (kind.flips == 0) continue;
    kind.undetected_rate =
        flip_rate(kind.undetected, kind.undetected, kind.flips, kind.bits, spec.confidence);
    for (std::size_t i = 0; i < kind.counts.size(); ++i) {
      kind.rates[i] = flip_rate(kind.counts[i], kind.counts[i] + kind.not_replayed, kind.flips, kind.bits,
                                spec.confidence);
    }
    kinds.push_back(kind);
  }
  return kinds;
}

Json replays_json(const std::vector<ReplayedKind>& kinds) {
  Json list = Json::array();
  for (const ReplayedKind& kind : kinds) {
    Json counts = {{"undetected", kind.undetected}, {"not_replayed", kind.not_replayed}};
    Json rates = {{"undetected", rate_json(kind.undetected_rate)}};
    for (const record::OutcomeClass outcome : record::outcome_classes) {
      const auto i = static_cast<std::size_t>(outcome);
      counts[name_of(outcome)] = kind.counts[i];
      rates[name_of(outcome)] = rate_json(kind.rates[i]);
    }
    list.push_back({{"format", kind.kind.format},
                    {"writer", kind.kind.writer},
                    {"bits", kind.bits},
                    {"flips", kind.flips},
                    {"counts", counts},
                    {"rates", rates}});
  }
  return list;
}

std::string replays_table(const StudySpec& spec, const std::vector<ReplayedKind>& kinds) {
  if (kinds.empty()) return "";
  std::string text = fmt::format("\n{:<13} {:<8} {:>6} {:>20} {:>20} {:>20} {:>20} {:>12}\n", "format",
                                 "writer", "flips", "undetected", "masked", "SDC", "crash", "not replayed");
  for (const ReplayedKind& kind : kinds) {
    text += fmt::format("{:<13} {:<8} {:>6} {:>20}", name_of(kind.kind.format), name_of(kind.kind.writer),
                        kind.flips, rate_text(kind.undetected_rate));
    for (const analyze::Rate& rate : kind.rates) text += fmt::format(" {:>20}", rate_text(rate));
    text += fmt::format(" {:>12}\n", kind.not_replayed);
  }
  return text +
         fmt::format(
             "flips of payload: % of them that the reader does not notice, and what those do to the "
             "training, "
             "as trials\nof a campaign; % of all flips with anytime intervals at {:g} %. Not replayed: flips "
             "that changed several\nelements; the intervals allow them any outcome\n",
             100 * spec.confidence);
}

}  // namespace bitrift::study
