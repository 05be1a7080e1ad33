#include "record/fault/process_fault.h"

#include <charconv>
#include <limits>

#include "core/error.h"

namespace bitrift::record {
namespace {

constexpr double most_slow = 1e6;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  fail(ErrorCode::bad_input, "'{}': {}; expected RANK@STEP:PHASE[.POINT][=HOW], such as 2@5:backward.1=kill",
       text, why);
}

template <typename Number>
Number number_of(std::string_view text, std::string_view digits, const char* what, Number least) {
  Number value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != end || value < least)
    refuse(text, fmt::format("'{}' is not a valid {} (they begin at {})", digits, what, least));
  return value;
}

// The text after the first `mark`; it is removed with the mark. "" without a mark.
std::string_view cut_behind(std::string_view& text, char mark) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view behind = text.substr(at + 1);
  text = text.substr(0, at);
  return behind;
}

Slowness slowness_of(std::string_view text, std::string_view words) {
  const std::string_view steps = cut_behind(words, ':');
  Slowness slowness;
  const char* const end = words.data() + words.size();
  const auto parsed = std::from_chars(words.data(), end, slowness.factor);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(slowness.factor > 1) || slowness.factor > most_slow)
    refuse(text, fmt::format("'{}' is not a valid factor (more than 1, at most {:g}), as in slow:3:10", words,
                             most_slow));
  slowness.steps = number_of<std::int64_t>(text, steps, "number of steps", 1);
  return slowness;
}

template <NamedEnum E>
E named(std::string_view text, std::string_view name) {
  if (const auto value = find_named<E>(name)) return *value;
  refuse(text, fmt::format("'{}' is not a valid {} ({})", name, names_of(E{}).noun, list_names<E>()));
}

}  // namespace

ProcessFault process_fault_from_text(std::string_view text) {
  std::string_view rest = text;
  const bool says_how = rest.find('=') != std::string_view::npos;
  std::string_view how = cut_behind(rest, '=');
  const bool says_more = how.find(':') != std::string_view::npos;
  const std::string_view slowness = cut_behind(how, ':');
  std::string_view phase = cut_behind(rest, ':');
  const bool says_point = phase.find('.') != std::string_view::npos;
  const std::string_view point = cut_behind(phase, '.');
  const std::string_view step = cut_behind(rest, '@');
  ProcessFault fault;
  fault.phase = named<TrainingPhase>(text, phase);
  fault.rank = number_of<int>(text, rest, "rank", 0);
  fault.step = number_of<std::int64_t>(text, step, "step", is_between_steps(fault.phase) ? 0 : 1);
  if (says_point) fault.point = number_of<std::int64_t>(text, point, "point", 0);
  if (says_how) fault.how = named<FailureMode>(text, how);
  if (fault.how == FailureMode::slow) {
    fault.slowness = slowness_of(text, slowness);
  } else if (says_more) {
    refuse(text, fmt::format("'{}': only slow takes more words", how));
  }
  return fault;
}

std::string to_text(const ProcessFault& fault) {
  std::string text = fmt::format("{}@{}:{}.{}={}", fault.rank, fault.step, name_of(fault.phase), fault.point,
                                 name_of(fault.how));
  if (fault.slowness) text += fmt::format(":{}:{}", fault.slowness->factor, fault.slowness->steps);
  return text;
}

}  // namespace bitrift::record
