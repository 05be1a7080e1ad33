#include "record/fault/failed_link.h"

#include <array>
#include <charconv>
#include <utility>

#include "core/error.h"

namespace bitrift::record {
namespace {

constexpr std::array<std::pair<const char*, std::optional<double> LinkReport::*>, 3> report_seconds = {
    {{"plan_seconds", &LinkReport::plan_seconds},
     {"step_seconds_before", &LinkReport::step_seconds_before},
     {"step_seconds_behind", &LinkReport::step_seconds_behind}}};

// Reads a text from its start to its end.
class TextParts {
 public:
  TextParts(LinkFailure kind, std::string_view text) : kind_(kind), text_(text), rest_(text) {}

  /// A number and the sign after it; '\0': the end of the text.
  template <typename T>
  T number(const char* what, char behind) {
    const std::size_t end = behind == '\0' ? rest_.size() : rest_.find(behind);
    if (end == std::string_view::npos) refuse(fmt::format("no '{}' after the {}", behind, what));
    const std::string_view digits = rest_.substr(0, end);
    T value{};
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || digits.starts_with('-'))
      refuse(fmt::format("'{}' is not a valid {}", digits, what));
    rest_.remove_prefix(behind == '\0' ? end : end + 1);
    return value;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorCode::bad_input, "'{}': {}; expected {}", text_, why,
         kind_ == LinkFailure::dead ? "ROW,COLUMN-ROW,COLUMN@STEP, such as 0,1-0,2@5"
                                    : "ROW,COLUMN-ROW,COLUMN@STEP:SECONDS, such as 0,1-0,2@5:0.002");
  }

 private:
  LinkFailure kind_;
  std::string_view text_, rest_;
};

void put_in_order(FailedLink& link) {
  const auto at = [](const ChipPlace& chip) { return std::pair(chip.row, chip.column); };
  if (at(link.other) < at(link.one)) std::swap(link.one, link.other);
}

bool possible(double delay) { return delay > 0 && delay <= most_delay; }

void read_chips(TextParts& parts, char behind, FailedLink& link) {
  link.one.row = parts.number<int>("row", ',');
  link.one.column = parts.number<int>("column", '-');
  link.other.row = parts.number<int>("row", ',');
  link.other.column = parts.number<int>("column", behind);
  if (link.one == link.other) parts.refuse("names one chip twice");
  put_in_order(link);
}

}  // namespace

FailedLink failed_link_from_text(LinkFailure kind, std::string_view text) {
  const bool slow = kind == LinkFailure::slow;
  TextParts parts(kind, text);
  FailedLink link{.kind = kind};
  read_chips(parts, '@', link);
  link.step = parts.number<std::int64_t>("step", slow ? ':' : '\0');
  if (link.step < 1) parts.refuse("steps count from 1");
  if (slow) link.delay = parts.number<double>("delay", '\0');
  if (slow && !possible(link.delay))
    parts.refuse(
        fmt::format("a delay of {}; more than 0 and at most {} are possible", link.delay, most_delay));
  return link;
}

std::string name_of_link(const FailedLink& link) {
  return fmt::format("{},{}-{},{}", link.one.row, link.one.column, link.other.row, link.other.column);
}

std::string to_text(const FailedLink& link) {
  const std::string text = fmt::format("{}@{}", name_of_link(link), link.step);
  return link.kind == LinkFailure::slow ? fmt::format("{}:{}", text, link.delay) : text;
}

Json to_json(const FailedLink& link) {
  Json value = {{"kind", link.kind}, {"between", name_of_link(link)}, {"step", link.step}};
  if (link.kind == LinkFailure::slow) value["delay"] = link.delay;
  return value;
}

FailedLink failed_link_from_json(const Json& value) {
  FailedLink link;
  link.kind = value.at("kind").get<LinkFailure>();
  value.at("step").get_to(link.step);
  const bool slow = link.kind == LinkFailure::slow;
  if (slow) value.at("delay").get_to(link.delay);
  if (link.step < 1 || (slow && !possible(link.delay)))
    fail(ErrorCode::bad_file, "a failed link of step {} with a delay of {}", link.step, link.delay);
  try {
    TextParts parts(LinkFailure::dead, value.at("between").get_ref<const std::string&>());
    read_chips(parts, '\0', link);
  } catch (const Error& error) {
    fail(ErrorCode::bad_file, "a failed link: {}", error.what());
  }
  return link;
}

Json to_json(const LinkReport& report, Times times) {
  Json value = {{"link", to_json(report.link)}};
  if (report.link.kind == LinkFailure::slow) value["delayed_messages"] = report.delayed;
  if (times == Times::with) value["volatile"] = times_of(report);
  return value;
}

Json times_of(const LinkReport& report) {
  Json times = Json::object();
  for (const auto& [key, member] : report_seconds) {
    if (report.*member) times[key] = *(report.*member);
  }
  return times;
}

void take_times(const Json& times, LinkReport& report) {
  for (const auto& [key, member] : report_seconds) {
    if (times.contains(key)) report.*member = times[key].get<double>();
  }
}

LinkReport link_report_from_json(const Json& value) {
  LinkReport report;
  report.link = failed_link_from_json(value.at("link"));
  report.delayed = value.value("delayed_messages", std::int64_t{0});
  if (value.contains("volatile")) take_times(value["volatile"], report);
  return report;
}

}  // namespace bitrift::record
