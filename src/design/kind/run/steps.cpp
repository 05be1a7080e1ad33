#include "design/kind/run/steps.h"

#include "core/error.h"

namespace bitrift::design {

using record::Json;

std::optional<StepRange> step_range_from(const record::Document& document, const std::string& pointer) {
  const Json::json_pointer place(pointer);
  if (!document.value.contains(place)) return std::nullopt;
  const Json& steps = document.value.at(place);
  const StepRange range =
      steps.is_object() ? StepRange{steps.at("first"), steps.at("last")} : StepRange{1, steps};
  if (range.last < range.first) {
    fail(ErrorCode::bad_input, "{}: 'last' is {}, before 'first', which is {}", document.where(pointer),
         range.last, range.first);
  }
  return range;
}

Json to_json(const StepRange& steps) { return {{"first", steps.first}, {"last", steps.last}}; }

StepRange drawn_steps(const std::optional<StepRange>& asked, std::int64_t per_epoch, std::int64_t epochs,
                      const char* key) {
  const std::int64_t length = per_epoch * epochs;
  const StepRange range = asked.value_or(StepRange{1, length});
  if (range.last <= length) return range;
  fail(ErrorCode::bad_input,
       "{} names step {}, but a run takes {} steps ({} an epoch): name steps of 1 to {}, or raise "
       "resume.epochs",
       key, range.last, length, per_epoch, length);
}

std::string steps_text(const std::optional<StepRange>& steps) {
  if (!steps) return "steps";
  if (steps->first == steps->last) return fmt::format("step {}", steps->first);
  return fmt::format("steps {} to {}", steps->first, steps->last);
}

}  // namespace bitrift::design
