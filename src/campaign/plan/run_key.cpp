#include "campaign/plan/run_key.h"

#include <charconv>

#include "core/error.h"
#include "record/stratum_name.h"

namespace bitrift::campaign {

using record::TrialId;
using record::TrialKind;

bool is_golden_run(const RunKey& key) {
  return key.kind == TrialKind::control && key.id.stratum != record::zero_step_stratum;
}

int order_of(const RunKey& key, int orders) {
  if (key.kind == TrialKind::trial || key.kind == TrialKind::jitter)
    return static_cast<int>(key.id.draw % static_cast<std::uint64_t>(orders));
  return key.kind == TrialKind::control ? record::order_of_control(key.id.stratum) : 0;
}

TrialId trial_id_from_text(const std::string& text) {
  const auto last = text.rfind('/');
  const auto middle = last == std::string::npos || last == 0 ? std::string::npos : text.rfind('/', last - 1);
  TrialId id;
  if (middle != std::string::npos && middle > 0 && middle + 1 < last) {
    const char* const begin = text.data() + last + 1;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(begin, end, id.draw);
    if (begin != end && parsed.ec == std::errc() && parsed.ptr == end) {
      id.arm = text.substr(0, middle);
      id.stratum = text.substr(middle + 1, last - middle - 1);
      return id;
    }
  }
  fail(ErrorCode::bad_input,
       "'{}' is not a trial: expected ARM/STRATUM/DRAW, as printed by `bitrift campaign list`", text);
}

}  // namespace bitrift::campaign
