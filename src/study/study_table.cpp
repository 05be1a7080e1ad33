#include "study/study_table.h"

#include <algorithm>
#include <functional>

#include "study/part/flip_rate.h"

namespace bitrift::study {
namespace {

std::string head(const KindSummary& kind) {
  return fmt::format("{:<13} {:<8}", name_of(kind.kind.format), name_of(kind.kind.writer));
}

std::string saves_text(const DeterminismResult& saves) {
  if (saves.equal) return "equal";
  const BitFault& place = *saves.first_difference;
  return fmt::format("differ from byte {}{}{} on: {}", place.byte, place.file.empty() ? "" : " of ",
                     place.file, place.structure.empty() ? "end of the first" : place.structure);
}

std::string size_text(const SizeResult& size) {
  const auto bytes = static_cast<double>(size.bytes);
  const auto values = static_cast<double>(size.tensor_bytes);
  const std::string per_parameter =
      size.parameters == 0 ? "-" : fmt::format("{:.2f}", bytes / static_cast<double>(size.parameters));
  return fmt::format("{:>12} {:>9} {:>9.2f}% {:>8.3f}", size.bytes, per_parameter, 100 * (bytes / values - 1),
                     static_cast<double>(size.payload_bytes) / values);
}

std::string sizes(const std::vector<KindSummary>& kinds) {
  const bool any = std::any_of(kinds.begin(), kinds.end(), [](const KindSummary& kind) {
    return kind.size.has_value() || kind.saves.has_value();
  });
  if (!any) return "";
  std::string text = fmt::format("{:<13} {:<8} {:>12} {:>9} {:>10} {:>8}  {}\n", "format", "writer", "bytes",
                                 "per param", "overhead", "payload", "two saves");
  for (const KindSummary& kind : kinds) {
    const std::string size = kind.size ? size_text(*kind.size) : std::string(42, ' ');
    const std::string saves = kind.saves ? saves_text(*kind.saves) : "";
    text += kind.missing.empty() ? fmt::format("{} {}  {}\n", head(kind), size, saves)
                                 : fmt::format("{} {:>12}\n", head(kind), kind.missing);
  }
  return text + "payload: bytes that hold values, per byte of the values in memory\n\n";
}

// Common outcomes are shown as rates, all others as numbers of flips.
std::string outcomes_text(const OutcomeRates& rates, const OutcomeCounts& counts, std::uint64_t missing) {
  std::string text;
  for (const auto outcome : {DamageOutcome::detected, DamageOutcome::silently_wrong, DamageOutcome::same})
    text += fmt::format(" {:>20}", rate_text(rates[static_cast<std::size_t>(outcome)]));
  text += fmt::format(" {:>7}", missing);
  for (const auto outcome : {DamageOutcome::crash, DamageOutcome::hang})
    text += fmt::format(" {:>6}", counts[static_cast<std::size_t>(outcome)]);
  return text;
}

std::string damage_lines(const KindSummary& kind) {
  if (!kind.missing.empty()) return fmt::format("{} {}\n", head(kind), kind.missing);
  std::string text;
  std::uint64_t bits = 0;
  std::uint64_t flips = 0;
  std::uint64_t missing = 0;
  OutcomeCounts counts = {};
  const auto line = [&](const char* name, std::uint64_t size, std::uint64_t n, const std::string& outcomes) {
    text += fmt::format("{} {:<8} {:>10} {:>6}{}\n", head(kind), name, size, n, outcomes);
  };
  for (const DamageCell& cell : kind.cells) {
    line(name_of(cell.stratum), cell.bits, cell.flips, outcomes_text(cell.rates, cell.counts, cell.missing));
    bits += cell.bits;
    flips += cell.flips;
    missing += cell.missing;
    std::transform(counts.begin(), counts.end(), cell.counts.begin(), counts.begin(), std::plus<>());
  }
  if (kind.file) line("any bit", bits, flips, outcomes_text(*kind.file, counts, missing));
  return text;
}

std::string damage(const StudySpec& spec, const std::vector<KindSummary>& kinds) {
  if (!spec.has(StudyPart::damage)) return "";
  std::string text = fmt::format("{:<13} {:<8} {:<8} {:>10} {:>6} {:>20} {:>20} {:>20} {:>7} {:>6} {:>6}\n",
                                 "format", "writer", "stratum", "bits", "n", "detected", "silently wrong",
                                 "same", "missing", "crash", "hang");
  for (const KindSummary& kind : kinds) text += damage_lines(kind);
  return text +
         fmt::format(
             "flips of single bits: % of them with anytime intervals at {:g} %; numbers of flips after "
             "which a tensor\nis missing (they are silently wrong, too), crashes and hangs; any bit: "
             "payload and metadata weighted by\ntheir bits\n",
             100 * spec.confidence);
}

}  // namespace

std::string study_table(const StudySpec& spec, const std::vector<KindSummary>& kinds) {
  return sizes(kinds) + damage(spec, kinds);
}

}  // namespace bitrift::study
