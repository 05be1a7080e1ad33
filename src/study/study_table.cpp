#include "study/study_table.h"

#include <algorithm>

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

std::string rate_text(const analyze::Rate& rate) {
  return fmt::format("{:.1f} [{:.1f}, {:.1f}]", 100 * rate.estimate, 100 * rate.anytime.low,
                     100 * rate.anytime.high);
}

std::string rates_text(const OutcomeRates& rates) {
  std::string text;
  for (const analyze::Rate& rate : rates) text += fmt::format(" {:>19}", rate_text(rate));
  return text;
}

std::string damage(const StudySpec& spec, const std::vector<KindSummary>& kinds) {
  if (!spec.has(StudyPart::damage)) return "";
  std::string text =
      fmt::format("{:<13} {:<8} {:<8} {:>9} {:>6}", "format", "writer", "stratum", "bits", "n");
  for (const char* name : {"detected", "silently wrong", "same", "crash", "hang"})
    text += fmt::format(" {:>19}", name);
  text += "\n";
  for (const KindSummary& kind : kinds) {
    if (!kind.missing.empty()) text += fmt::format("{} {}\n", head(kind), kind.missing);
    std::uint64_t bits = 0;
    std::uint64_t flips = 0;
    for (const DamageCell& cell : kind.cells) {
      text += fmt::format("{} {:<8} {:>9} {:>6}{}\n", head(kind), name_of(cell.stratum), cell.bits,
                          cell.flips, rates_text(cell.rates));
      bits += cell.bits;
      flips += cell.flips;
    }
    if (kind.file)
      text +=
          fmt::format("{} {:<8} {:>9} {:>6}{}\n", head(kind), "any bit", bits, flips, rates_text(*kind.file));
  }
  return text + fmt::format(
                    "of all flips of single bits, in %, with anytime intervals at {:g} %; any bit: "
                    "payload and metadata by their numbers of bits\n",
                    100 * spec.confidence);
}

}  // namespace

std::string study_table(const StudySpec& spec, const std::vector<KindSummary>& kinds) {
  return sizes(kinds) + damage(spec, kinds);
}

}  // namespace bitrift::study
