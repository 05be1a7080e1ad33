// A link between two chips of a mesh that fails: dead or slow from a step on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/named_enum.h"
#include "record/fault/link_fault.h"
#include "record/json/json.h"

namespace bitrift::record {

enum class LinkFailure {
  dead,  ///< no message goes over it
  slow,  ///< every message over it arrives late
};
constexpr EnumNames<2> names_of(LinkFailure) { return {"failure of a link", {"dead", "slow"}}; }

/// The longest delay of a slow link, in seconds.
inline constexpr double most_delay = 10;

/// Fails in both directions from the start of a step on, until the run ends.
struct FailedLink {
  LinkFailure kind = LinkFailure::dead;
  ChipPlace one = {},
            other = {};   ///< neighbours; `one` is in a lower row, or in the same row and a lower column
  std::int64_t step = 1;  ///< of this run, 1-based
  double delay = 0;       ///< slow: seconds by which each message is late; dead: 0
  bool operator==(const FailedLink&) const = default;
};

/// {"kind", "between": "0,1-0,2", "step"}, and "delay" of a slow link.
[[nodiscard]] Json to_json(const FailedLink& link);
/// Throws Error(bad_file) for impossible values.
[[nodiscard]] FailedLink failed_link_from_json(const Json& value);
/// Dead: "ROW,COLUMN-ROW,COLUMN@STEP", such as "0,1-0,2@5". Slow: ":SECONDS" as well, "0,1-0,2@5:0.002". The
/// chips may be given in either order. Throws Error(bad_input) that says what was expected.
[[nodiscard]] FailedLink failed_link_from_text(LinkFailure kind, std::string_view text);
/// The inverse.
[[nodiscard]] std::string to_text(const FailedLink& link);
/// "0,1-0,2".
[[nodiscard]] std::string name_of_link(const FailedLink& link);

/// What happened to a link that failed in a run.
struct LinkReport {
  FailedLink link;
  std::int64_t delayed = 0;  ///< slow: messages that were late
  /// Dead: seconds to plan and prove without it on rank 0; absent: nothing was planned. Volatile.
  std::optional<double> plan_seconds{};
  /// Medians of the run's steps on rank 0, those before the link failed and those from then on; absent: there
  /// was none. Volatile.
  std::optional<double> step_seconds_before{}, step_seconds_behind{};
};

/// {"link": {...}, "delayed_messages"}, and with the times "volatile": {"plan_seconds", ...}.
[[nodiscard]] Json to_json(const LinkReport& report, Times times = Times::with);
[[nodiscard]] LinkReport link_report_from_json(const Json& value);
/// Only the object under "volatile".
[[nodiscard]] Json times_of(const LinkReport& report);
void take_times(const Json& times, LinkReport& report);

}  // namespace bitrift::record
