#include "study/state/state_part.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "campaign/folder/own_folder.h"
#include "campaign/plan/ends.h"
#include "core/error.h"
#include "core/file.h"
#include "study/part/saver.h"
#include "study/state/left_out.h"

namespace bitrift::study {
namespace {

// The last words of a program that refuses a file.
std::string reason_of(const std::string& text, const std::filesystem::path& file) {
  const std::string mark = ": error: ";
  const std::size_t at = text.rfind(mark);
  std::string reason = at == std::string::npos ? text : text.substr(at + mark.size());
  // The path of this file differs from study to study.
  if (const std::string start = file.string() + ": "; reason.starts_with(start))
    reason.erase(0, start.size());
  return reason;
}

// From 1; nullopt: there is none. If one list ends before the other, they differ there.
std::optional<std::uint64_t> first_difference(const std::vector<std::string>& a,
                                              const std::vector<std::string>& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  if (end == a.end() && a.size() == b.size()) return std::nullopt;
  return static_cast<std::uint64_t>(end - a.begin()) + 1;
}

}  // namespace

void compare_losses(const Losses& golden, const Losses& found, StateResult& result) {
  result.steps = std::min(golden.steps.size(), found.steps.size());
  result.first_step = first_difference(golden.steps, found.steps);
  result.first_evaluation = first_difference(golden.evaluations, found.evaluations);
  if (!result.first_step) return;
  double largest = 0;
  for (std::size_t i = 0; i < result.steps; ++i) {
    const double difference = std::abs(std::strtod(golden.steps[i].c_str(), nullptr) -
                                       std::strtod(found.steps[i].c_str(), nullptr));
    if (!std::isfinite(difference)) return;
    largest = std::max(largest, difference);
  }
  result.largest = largest;
}

LeftOutStates::LeftOutStates(const StateSpec& spec, StudyJournal& journal, campaign::Progress& progress,
                             StatePlaces places)
    : spec_(spec), journal_(journal), progress_(progress), places_(std::move(places)) {
  campaign::make_folder(places_.work);
}

Losses LeftOutStates::losses_from(const std::filesystem::path& checkpoint) const {
  const auto trace = places_.work / "trace.jsonl";
  run_program({{places_.trainer.string(), "resume", checkpoint.string(), "--parallel", "serial", "--guard",
                "none", "--steps", std::to_string(spec_.steps), "--trace", trace.string()},
               {},
               places_.log},
              "resuming " + checkpoint.string());
  Losses losses;
  std::istringstream lines(read_text(trace));
  for (std::string line; std::getline(lines, line);) {
    const record::Json one = record::Json::parse(line);
    if (one.contains("loss")) losses.steps.push_back(one["loss"].get<std::string>());
    if (one.contains("evaluation")) losses.evaluations.push_back(one["evaluation"].at("test_loss").dump());
  }
  return losses;
}

StateResult LeftOutStates::result_of(const std::string& piece, const std::vector<std::string>& tensors,
                                     const Losses& golden) const {
  StateResult result{piece, tensors.size()};
  const auto altered = places_.work / "altered.h5";
  result.changed = leave_out(tensors, places_.base, places_.fresh, altered);
  try {
    compare_losses(golden, losses_from(altered), result);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    result.refused = reason_of(error.what(), altered);
  }
  return result;
}

void LeftOutStates::run() {
  auto pieces = state_pieces(ckpt::Reader(places_.base));
  pieces[nothing_left_out] = {};
  const auto done = std::count_if(pieces.begin(), pieces.end(), [&](const auto& piece) {
    return journal_.find(state_id(piece.first)) != nullptr;
  });
  progress_.stage(name_of(StudyPart::state), static_cast<std::size_t>(done), pieces.size());
  if (static_cast<std::size_t>(done) == pieces.size()) return;
  const Losses golden = losses_from(places_.base);
  for (const auto& [piece, tensors] : pieces) {
    if (journal_.find(state_id(piece)) != nullptr) continue;
    StateResult result = result_of(piece, tensors, golden);
    const bool differs = result.first_step || result.first_evaluation || !result.refused.empty();
    if ((piece == nothing_left_out && differs) || (piece == all_parameters && !differs)) {
      throw campaign::Misbehaviour(
          fmt::format("state: with {} left out, the losses {}", piece, differs ? "differ" : "are the same"));
    }
    journal_.append({state_kind.format, state_kind.writer, std::move(result)});
    progress_.advance();
  }
}

}  // namespace bitrift::study
