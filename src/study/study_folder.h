// The folder of a study: the place of each file, the right to write, and the check that it holds one study
// only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/file.h"
#include "record/json/json.h"
#include "study/part/damage.h"
#include "study/part/saver.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// Names inside a study's folder (docs/checkpoint-cost.md, "The folder").
struct StudyLayout {
  std::filesystem::path root;
  [[nodiscard]] std::filesystem::path identity() const { return root / "study.json"; }
  [[nodiscard]] std::filesystem::path rows() const { return root / "rows.jsonl"; }
  [[nodiscard]] std::filesystem::path summary() const { return root / "summary.json"; }
  [[nodiscard]] std::filesystem::path base() const { return root / "base.h5"; }
  [[nodiscard]] std::filesystem::path base_spec() const { return root / "base-train.json"; }
  [[nodiscard]] std::filesystem::path files() const { return root / "files"; }
  [[nodiscard]] std::filesystem::path work() const { return root / "work"; }
  [[nodiscard]] std::filesystem::path trainings() const { return root / "trainings"; }
  [[nodiscard]] std::filesystem::path replay() const { return root / "replay"; }
  [[nodiscard]] std::filesystem::path replay_spec() const { return root / "replay.json"; }
  [[nodiscard]] std::filesystem::path lock() const { return root / "lock"; }
  [[nodiscard]] std::filesystem::path log(const std::string& name) const {
    return root / "logs" / (name + ".log");
  }
};

/// A folder that this process holds.
class StudyFolder {
 public:
  /// Creates or opens the folder and locks it. drill: "" or the drill's name. Throws Error(busy) when another
  /// study runs in it, Error(conflict) that names the first difference when it belongs to another spec or
  /// drill, Error(bad_input) when it holds other files, Error(io).
  StudyFolder(const std::filesystem::path& root, const StudySpec& spec, const std::string& drill,
              const std::vector<std::string>& command);

  [[nodiscard]] const StudyLayout& layout() const noexcept { return layout_; }
  /// Trains or copies the base unless it exists. Throws Error(conflict) when it has changed since the first
  /// start, and as run_program() does.
  void prepare_base(const StudySpec& spec, const std::filesystem::path& trainer);
  /// Trains each of spec.cost.models for one step unless it exists. Throws as prepare_base() does.
  [[nodiscard]] std::vector<std::filesystem::path> prepare_models(const StudySpec& spec,
                                                                  const std::filesystem::path& trainer);
  /// A checkpoint of the base's training in another state: after one step, or after two if the base is that.
  /// Throws as prepare_base() does.
  [[nodiscard]] std::filesystem::path prepare_older(const std::filesystem::path& trainer);
  /// The same, but before the first step.
  [[nodiscard]] std::filesystem::path prepare_fresh(const std::filesystem::path& trainer);
  /// Keeps the versions of the native libraries. Throws Error(conflict) when the study began with other
  /// versions.
  void note_versions(const record::Json& versions);
  /// Saves the base as a kind of file unless it exists. Throws as prepare_base() and Saver::save() do.
  [[nodiscard]] StudyFile prepare_file(const FileKind& kind, Saver& saver);

 private:
  void store() const;
  [[nodiscard]] std::filesystem::path prepare_other(const std::string& name, std::int64_t steps,
                                                    const record::TrainingSpec& training,
                                                    const std::filesystem::path& trainer);
  void train(const std::filesystem::path& trainer, const record::TrainingSpec& training,
             std::optional<std::int64_t> steps, const std::filesystem::path& spec,
             const std::filesystem::path& out) const;

  StudyLayout layout_;
  FileDescriptor lock_;
  record::Json identity_;
};

}  // namespace bitrift::study
