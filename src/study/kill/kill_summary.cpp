#include "study/kill/kill_summary.h"

#include <algorithm>

namespace bitrift::study {
namespace {

using record::Json;

void add(KilledKind& kind, const KillResult& kill) {
  if (kill.call == 0) {
    kind.calls = kill.calls.size();
    kind.points = kill.points;
    return;
  }
  ++kind.kills;
  ++kind.counts.at(static_cast<std::size_t>(kill.outcome));
  kind.left = std::max(kind.left, kill.left);
}

}  // namespace

std::vector<KilledKind> summarize_kills(const StudySpec& spec, const std::vector<StudyRow>& rows) {
  std::vector<KilledKind> kinds;
  for (const FileKind& kind : spec.kinds()) {
    KilledKind killed{kind};
    for (const StudyRow& row : rows) {
      const auto* kill = std::get_if<KillResult>(&row.result);
      if (kill != nullptr && row.format == kind.format && row.writer == kind.writer) add(killed, *kill);
    }
    if (killed.kills > 0) kinds.push_back(killed);
  }
  return kinds;
}

Json kills_json(const std::vector<KilledKind>& kinds) {
  Json list = Json::array();
  for (const KilledKind& kind : kinds) {
    Json counts;
    for (std::size_t i = 0; i < kill_outcomes; ++i)
      counts[name_of(static_cast<KillOutcome>(i))] = kind.counts.at(i);
    list.push_back({{"format", kind.kind.format},
                    {"writer", kind.kind.writer},
                    {"calls", kind.calls},
                    {"points", kind.points},
                    {"kills", kind.kills},
                    {"counts", counts},
                    {"left", kind.left}});
  }
  return list;
}

std::string kills_table(const std::vector<KilledKind>& kinds) {
  if (kinds.empty()) return "";
  std::string text = fmt::format("\n{:<13} {:<8} {:>6} {:>6} {:>9} {:>9} {:>9} {:>15} {:>6} {:>6} {:>5}\n",
                                 "format", "writer", "calls", "kills", "previous", "complete", "detected",
                                 "silently wrong", "crash", "hang", "left");
  for (const KilledKind& kind : kinds) {
    text += fmt::format("{:<13} {:<8} {:>6} {:>6} {:>9} {:>9} {:>9} {:>15} {:>6} {:>6} {:>5}\n",
                        name_of(kind.kind.format), name_of(kind.kind.writer), kind.calls, kind.kills,
                        kind.counts[0], kind.counts[1], kind.counts[2], kind.counts[3], kind.counts[4],
                        kind.counts[5], kind.left);
  }
  return text +
         "kills of a save over an older checkpoint, at calls that alter files: which checkpoint is whole, or "
         "what "
         "the\nreader does where neither is; left: files that no checkpoint has\n";
}

}  // namespace bitrift::study
