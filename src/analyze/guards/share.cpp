#include "analyze/guards/share.h"

#include <fmt/format.h>

namespace bitrift::analyze {
namespace {

double part_of(const Share& share) {
  return static_cast<double>(share.count) / static_cast<double>(share.runs);
}

}  // namespace

void Share::add(bool counts) noexcept {
  ++runs;
  count += counts ? 1 : 0;
}

void Share::close(double confidence) {
  if (runs > 0) interval = clopper_pearson(count, runs, confidence);
}

std::string text_of(const Share& share) {
  if (share.runs == 0) return "none";
  return fmt::format("{}/{} {:.1f} [{:.1f}, {:.1f}]", share.count, share.runs, 100 * part_of(share),
                     100 * share.interval.low, 100 * share.interval.high);
}

record::Json to_json(const Share& share, const char* key) {
  record::Json value = {{"runs", share.runs}, {key, share.count}, {"share", nullptr}, {"interval", nullptr}};
  if (share.runs == 0) return value;
  value["share"] = part_of(share);
  value["interval"] = {share.interval.low, share.interval.high};
  return value;
}

}  // namespace bitrift::analyze
