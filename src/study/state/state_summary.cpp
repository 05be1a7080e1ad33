#include "study/state/state_summary.h"

#include <algorithm>

#include "study/state/left_out.h"

namespace bitrift::study {
namespace {

std::string number_text(const std::optional<std::uint64_t>& number) {
  return number ? std::to_string(*number) : "-";
}

std::string difference_text(const StateResult& state) {
  if (!state.refused.empty()) return "refused: " + state.refused;
  const std::string none = state.first_step ? "not a number" : "-";
  return fmt::format("{:>10} {:>12} {:>11}", number_text(state.first_step),
                     state.largest ? fmt::format("{:.3g}", *state.largest) : none,
                     number_text(state.first_evaluation));
}

}  // namespace

std::vector<StateResult> summarize_states(const std::vector<StudyRow>& rows) {
  std::vector<StateResult> states;
  for (const StudyRow& row : rows) {
    const auto* state = std::get_if<StateResult>(&row.result);
    if (state != nullptr && state->piece != nothing_left_out) states.push_back(*state);
  }
  std::sort(states.begin(), states.end(),
            [](const StateResult& a, const StateResult& b) { return a.piece < b.piece; });
  return states;
}

record::Json states_json(const std::vector<StateResult>& states) {
  record::Json list = record::Json::array();
  for (const StateResult& state : states) list.push_back(state);
  return list;
}

std::string states_table(const std::vector<StateResult>& states) {
  if (states.empty()) return "";
  std::string text = fmt::format("\n{:<28} {:>7} {:>7} {:>6} {:>10} {:>12} {:>11}\n", "left out", "tensors",
                                 "changed", "steps", "first step", "difference", "first test");
  for (const StateResult& state : states) {
    text += fmt::format("{:<28} {:>7} {:>7} {:>6} {}\n", state.piece, state.tensors, state.changed,
                        state.steps, difference_text(state));
  }
  return text +
         "resumed without a piece of the state: tensors that this changed; the first step, from 1, whose "
         "loss differs "
         "from\nthat of the whole state, the largest difference of a step's loss, and the first test whose "
         "loss "
         "differs\n";
}

}  // namespace bitrift::study
