#include "study/run_study.h"

#include <algorithm>
#include <optional>

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "record/provenance.h"
#include "study/kill/kill_part.h"
#include "study/part/two_saves.h"
#include "study/policy/policy_part.h"
#include "study/replay/replay_part.h"
#include "study/row/base_checkpoint.h"
#include "study/state/state_part.h"
#include "study/state/state_summary.h"
#include "study/study_folder.h"

namespace bitrift::study {
namespace {

using campaign::Progress;

/// A time stamp of a zip archive counts in steps of 2 s.
constexpr double between_saves = 2.5;  // s

// Everything that the parts need; all of it outlives the run.
struct Study {
  const StudySpec& spec;
  StudyFolder& folder;
  NativeReader& reader;
  Saver& saver;
  StudyJournal& journal;
  Progress& progress;
  const std::vector<StudyFile>& files;
  const std::filesystem::path& trainer;
  const std::filesystem::path& bitrift;  ///< "" if no part needs it

  [[nodiscard]] std::vector<const StudyFile*> without_row(StudyPart part) const {
    std::vector<const StudyFile*> missing;
    for (const StudyFile& file : files) {
      if (journal.find(row_id(part, file.kind)) == nullptr) missing.push_back(&file);
    }
    return missing;
  }
  // The stage of a part, and its number of rows.
  void begin(StudyPart part, std::size_t total) const {
    const auto& rows = journal.rows();
    const auto done =
        std::count_if(rows.begin(), rows.end(), [&](const StudyRow& row) { return row.part() == part; });
    progress.stage(name_of(part), static_cast<std::size_t>(done), total);
  }
};

void run_sizes(const Study& study) {
  study.begin(StudyPart::size, study.files.size());
  const std::uint64_t parameters = read_base(study.folder.layout().base()).parameters;
  for (const StudyFile* file : study.without_row(StudyPart::size)) {
    const SizeResult size{file->bits.bytes(), file->bits.bits(BitStratum::payload) / 8,
                          study.reader.facts().tensor_bytes, parameters};
    study.journal.append({file->kind.format, file->kind.writer, size});
    study.progress.advance();
  }
}

// All kinds are saved in one process, and then all in another.
void run_determinism(const Study& study) {
  study.begin(StudyPart::determinism, study.files.size());
  const auto missing = study.without_row(StudyPart::determinism);
  if (missing.empty()) return;
  const auto place = [&](const char* stem, const FileKind& kind) {
    return study.folder.layout().work() / "saves" / kind.name() / (std::string(stem) + kind.extension);
  };
  study.saver.end_process();
  std::vector<FileBits> first;
  for (const StudyFile* file : missing) {
    const auto path = place("first", file->kind);
    const auto extents = study.saver.save(file->kind, path);
    first.emplace_back(path, extents);
  }
  study.saver.end_process();
  pause(between_saves);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const FileKind& kind = missing[i]->kind;
    const auto path = place("second", kind);
    (void)study.saver.save(kind, path);
    study.journal.append({kind.format, kind.writer, compare_saves(place("first", kind), path, first[i])});
    study.progress.advance();
  }
}

void run_damage(const Study& study, bool read_original) {
  std::uint64_t total = 0;
  for (const StudyFile& file : study.files) total += damage_rows(file, study.spec.damage);
  study.begin(StudyPart::damage, total);
  Damage damage(study.spec.damage, study.reader, study.journal, study.progress, study.folder.layout().work(),
                read_original);
  for (const StudyFile& file : study.files) damage.run(file);
}

void run_replays(const Study& study) {
  const StudyLayout& layout = study.folder.layout();
  Replays(study.spec, study.reader, study.journal, study.progress,
          {study.bitrift, study.trainer, layout.base(), layout.replay_spec(), layout.replay(),
           layout.log("replay")},
          layout.work())
      .run(study.files);
}

void run_kills(const Study& study) {
  Kills kills(study.spec, study.reader, study.saver, study.journal, study.progress,
              study.folder.prepare_older(study.trainer), study.folder.layout().work() / "kills");
  for (const StudyFile& file : study.files) kills.run(file.kind);
}

void run_states(const Study& study) {
  const auto work = study.folder.layout().work() / "state";
  const auto base = work / "base.h5";
  (void)study.saver.save(state_kind, base);  // contiguous, whatever the base is
  LeftOutStates(study.spec.state, study.journal, study.progress,
                {study.trainer, base, study.folder.prepare_fresh(study.trainer), work,
                 study.folder.layout().log("state")})
      .run();
}

void run_cost(const Study& study) {
  const std::size_t cases = cost_cases(study.spec, installed_kinds(study.reader, study.trainer)).size();
  study.begin(StudyPart::cost, cases * study.spec.cost.turns);
  const StudyLayout& layout = study.folder.layout();
  std::vector<std::filesystem::path> bases = {layout.base()};
  for (auto& model : study.folder.prepare_models(study.spec, study.trainer))
    bases.push_back(std::move(model));
  Cost(study.spec, study.reader, study.journal, study.progress, study.trainer, std::move(bases),
       layout.work() / "timed")
      .run();
}

void run_policy(const Study& study) {
  const PolicySpec& spec = study.spec.policy;
  study.begin(StudyPart::policy,
              spec.modes.size() * (spec.factors.size() + spec.lives * (1 + spec.factors.size())));
  const StudyLayout& layout = study.folder.layout();
  Policy(spec, study.journal, study.progress, study.trainer, layout.base(), layout.trainings()).run();
}

void run_parts(const Study& study, std::optional<StudyDrill> drill) {
  for (const StudyPart part : study.spec.parts) {
    switch (part) {
      case StudyPart::size:
        run_sizes(study);
        break;
      case StudyPart::determinism:
        run_determinism(study);
        break;
      case StudyPart::damage:
        run_damage(study, drill == StudyDrill::read_original);
        break;
      case StudyPart::replay:
        run_replays(study);
        break;
      case StudyPart::kill:
        run_kills(study);
        break;
      case StudyPart::state:
        run_states(study);
        break;
      case StudyPart::cost:
        run_cost(study);
        break;
      case StudyPart::policy:
        run_policy(study);
        break;
    }
    study.journal.sync();
  }
}

}  // namespace

StudyReport run_study(const StudyOptions& options, Progress& progress) {
  const campaign::InterruptGuard interrupts;
  StudySpec spec = read_study_spec(options.spec);
  const std::filesystem::path trainer = campaign::find_trainer();
  std::filesystem::path bitrift;
  if (spec.has(StudyPart::replay)) bitrift = campaign::find_bitrift();
  StudyFolder folder(std::filesystem::absolute(options.folder), spec,
                     options.drill ? name_of(*options.drill) : "", options.command);
  const StudyLayout& layout = folder.layout();
  progress.note(fmt::format("study '{}', seed {}, in {}", spec.name, spec.damage.seed, layout.root.string()));
  folder.prepare_base(spec, trainer);
  NativeReader reader({.interpreter = spec.interpreter,
                       .base = layout.base(),
                       .formats = spec.formats,
                       .memory = spec.damage.memory,
                       .log = layout.log("reader"),
                       .misread = options.drill == StudyDrill::misread});
  folder.note_versions(reader.facts().versions);
  Saver saver(reader, trainer, layout.base(), layout.log("saves"));
  std::vector<StudyFile> files;
  for (const FileKind& kind : spec.kinds()) {
    if (reader.facts().installed.at(name_of(kind.format))) files.push_back(folder.prepare_file(kind, saver));
  }
  StudyJournal journal(layout.rows());
  if (journal.torn_bytes() > 0)
    progress.note(
        fmt::format("removed {} bytes of an incomplete last line from the rows", journal.torn_bytes()));
  run_parts({spec, folder, reader, saver, journal, progress, files, trainer, bitrift}, options.drill);
  std::error_code ignored;
  std::filesystem::remove_all(layout.work(), ignored);
  std::filesystem::remove_all(layout.trainings(), ignored);

  StudyReport report{spec,
                     summarize(spec, journal.rows(), files),
                     summarize_replays(spec, journal.rows(), files),
                     summarize_kills(spec, journal.rows()),
                     summarize_states(journal.rows()),
                     summarize_cost(spec, cost_cases(spec, installed_kinds(reader, trainer)), journal.rows()),
                     summarize_policy(spec, journal.rows()),
                     {},
                     layout.rows(),
                     layout.summary()};
  report.document = summary_json(spec, report.kinds);
  if (spec.has(StudyPart::replay)) report.document["replay"] = replays_json(report.replays);
  if (spec.has(StudyPart::kill)) report.document["kill"] = kills_json(report.kills);
  if (spec.has(StudyPart::state)) report.document["state"] = states_json(report.states);
  if (spec.has(StudyPart::cost)) report.document["cost"] = cost_json(report.cost);
  if (!report.policy.empty()) report.document["policy"] = policy_json(report.policy);
  report.document["versions"] = reader.facts().versions;
  report.document["drill"] = options.drill ? name_of(*options.drill) : "";
  report.document["provenance"] = record::provenance(options.command);
  replace_text(report.summary, report.document.dump(2) + "\n");
  return report;
}

}  // namespace bitrift::study
