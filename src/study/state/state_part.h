// The part `state`: which piece of the state changes the resumed training if it is left out of a checkpoint,
// and when.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "campaign/progress/progress.h"
#include "study/row/study_journal.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// The files that the part needs.
struct StatePlaces {
  std::filesystem::path trainer;  ///< bitrift-train
  std::filesystem::path base;     ///< a contiguous HDF5 checkpoint
  std::filesystem::path fresh;    ///< one of the same training before its first step
  std::filesystem::path work;     ///< a folder
  std::filesystem::path log;      ///< what the runs print
};

/// Losses of steps and tests in a trace's form: texts that are equal if the numbers are.
struct Losses {
  std::vector<std::string> steps, evaluations;
};

/// Resumes the base once for each piece that is left out.
class LeftOutStates {
 public:
  /// All but the places must outlive this.
  LeftOutStates(const StateSpec& spec, StudyJournal& journal, campaign::Progress& progress,
                StatePlaces places);

  /// Adds the rows that are not there. Throws campaign::Misbehaviour if the whole base does not give the same
  /// losses twice, or gives them without its parameters, and as run_program() does.
  void run();

 private:
  [[nodiscard]] Losses losses_from(const std::filesystem::path& checkpoint) const;
  [[nodiscard]] StateResult result_of(const std::string& piece, const std::vector<std::string>& tensors,
                                      const Losses& golden) const;

  const StateSpec& spec_;
  StudyJournal& journal_;
  campaign::Progress& progress_;
  StatePlaces places_;
};

/// Fills in the steps and the differences.
void compare_losses(const Losses& golden, const Losses& found, StateResult& result);

}  // namespace bitrift::study
