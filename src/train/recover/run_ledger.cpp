#include "train/recover/run_ledger.h"

#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace bitrift::train {
namespace {

using record::Json;

Json binary(const std::string& bytes) {
  return Json::binary(Json::binary_t::container_type(bytes.begin(), bytes.end()));
}

std::string bytes_of(const Json& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

Json to_json(const Trajectory& golden) {
  Json marks = Json::array();
  for (const Trajectory::Mark& mark : golden.marks) marks.push_back({mark.loss, mark.correct, mark.digests});
  return {{"marks", marks}, {"result", record::to_json(golden.result)}};
}

Trajectory trajectory_from_json(const Json& value) {
  Trajectory golden;
  for (const Json& mark : value.at("marks")) golden.marks.push_back({mark.at(0), mark.at(1), mark.at(2)});
  golden.result = record::run_result_from_json(value.at("result"));
  return golden;
}

Json to_json(const StepMade& step) {
  return {{"epoch", step.epoch},
          {"learning_rate", step.learning_rate},
          {"loss", step.loss},
          {"correct", step.correct},
          {"stopped", step.stopped},
          {"epoch_ended", step.epoch_ended},
          {"training", record::to_json(step.training)}};
}

StepMade step_from_json(const Json& value) {
  return {value.at("epoch"),
          value.at("learning_rate"),
          value.at("loss"),
          value.at("correct"),
          value.at("stopped"),
          value.at("epoch_ended"),
          record::evaluation_from_json(value.at("training"))};
}

Json to_json(const Decision& decision) {
  return {{"loss", decision.batch.loss},
          {"asked", decision.batch.asked},
          {"correct", decision.batch.correct},
          {"bad_gradient", decision.bad_gradient},
          {"norms", decision.norms}};
}

Decision decision_from_json(const Json& value) {
  return {{value.at("loss"), value.at("asked"), value.at("correct")},
          value.at("bad_gradient"),
          value.at("norms")};
}

std::filesystem::path ledger_file(const std::filesystem::path& folder, std::int64_t step) {
  return folder / fmt::format("ledger-{}", step);
}

}  // namespace

std::string to_text(const Ledger& ledger) {
  Json value = {{"commits", ledger.at.commits},
                {"next", name_of(ledger.at.next)},
                {"epochs", ledger.terms.epochs},
                {"order", ledger.terms.order},
                {"early_end", ledger.terms.early_end},
                {"result", record::to_json(ledger.result)},
                {"first_epoch", ledger.first_epoch},
                {"last", to_json(ledger.last)},
                {"decision", to_json(ledger.decision)},
                {"next_look", ledger.next_look},
                {"gap", ledger.gap},
                {"faults", Json::array()},
                {"batch_size", ledger.batch_size},
                {"costs", ledger.costs},
                {"shared", binary(packed(ledger.shared))}};
  for (const record::ProcessFault& fault : ledger.faults) value["faults"].push_back(record::to_json(fault));
  if (ledger.terms.steps) value["steps"] = *ledger.terms.steps;
  if (ledger.file) value["file"] = ledger.file->string();
  if (ledger.golden) value["golden"] = to_json(*ledger.golden);
  const std::vector<std::uint8_t> bytes = Json::to_cbor(value);
  return {bytes.begin(), bytes.end()};
}

Ledger ledger_from_text(const std::string& text) {
  try {
    const Json value = Json::from_cbor(text);
    Ledger ledger;
    ledger.at = {value.at("commits"), parse_named<Next>(value.at("next").get<std::string>())};
    ledger.terms = {{}, value.at("epochs"), value.at("order"), value.at("early_end")};
    if (value.contains("steps")) ledger.terms.steps = value["steps"].get<std::int64_t>();
    ledger.result = record::run_result_from_json(value.at("result"));
    ledger.first_epoch = value.at("first_epoch");
    ledger.last = step_from_json(value.at("last"));
    ledger.decision = decision_from_json(value.at("decision"));
    ledger.next_look = value.at("next_look");
    ledger.gap = value.at("gap");
    for (const Json& fault : value.at("faults"))
      ledger.faults.push_back(record::process_fault_from_json(fault));
    ledger.batch_size = value.at("batch_size");
    ledger.costs = value.at("costs").get<std::vector<double>>();
    ledger.shared = unpacked(bytes_of(value.at("shared")));
    if (value.contains("file")) ledger.file = value["file"].get<std::string>();
    if (value.contains("golden")) ledger.golden = trajectory_from_json(value["golden"]);
    return ledger;
  } catch (const Json::exception& error) {
    fail(ErrorCode::internal, "a ledger cannot be read: {}", error.what());
  }
}

void LedgerFiles::write(const mpi::Communicator& ranks, std::int64_t step, const Ledger& ledger) {
  mpi::agreed(ranks, [&] {
    if (ranks.rank() != 0 || folder_.empty()) return;
    std::filesystem::create_directories(folder_);
    const std::filesystem::path file = ledger_file(folder_, step);
    replace_text(file, to_text(ledger));
    if (written_.empty() || written_.back() != file) written_.push_back(file);
  });
}

void LedgerFiles::remove_earlier() noexcept {
  std::error_code ignored;
  for (; written_.size() > keep_; written_.pop_front()) std::filesystem::remove(written_.front(), ignored);
}

std::optional<Ledger> LedgerFiles::read(const mpi::Communicator& ranks, const std::filesystem::path& folder,
                                        std::int64_t step) {
  std::string text;
  std::error_code ignored;
  mpi::agreed(ranks, [&] {
    if (ranks.rank() != 0 || folder.empty()) return;
    const std::filesystem::path file = ledger_file(folder, step);
    if (std::filesystem::exists(file, ignored)) text = read_text(file);
  });
  ranks.broadcast(text, 0);
  return text.empty() ? std::nullopt : std::optional(ledger_from_text(text));
}

}  // namespace bitrift::train
