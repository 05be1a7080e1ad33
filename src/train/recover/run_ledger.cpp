#include "train/recover/run_ledger.h"

#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace bitrift::train {
namespace {

using record::Json;

// There are many marks, so they are lists.
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

// All members but the result, the shared state and the golden run.
constexpr std::tuple ledger_keys = {record::Key{"at", &Ledger::at},
                                    record::Key{"terms", &Ledger::terms},
                                    record::Key{"first_epoch", &Ledger::first_epoch},
                                    record::Key{"last", &Ledger::last},
                                    record::Key{"decision", &Ledger::decision},
                                    record::Key{"next_look", &Ledger::next_look},
                                    record::Key{"gap", &Ledger::gap},
                                    record::Key{"faults", &Ledger::faults},
                                    record::Key{"file", &Ledger::file},
                                    record::Key{"batch_size", &Ledger::batch_size},
                                    record::Key{"costs", &Ledger::costs}};

std::filesystem::path ledger_file(const std::filesystem::path& folder, std::int64_t step) {
  return folder / fmt::format("ledger-{}", step);
}

}  // namespace

std::string to_text(const Ledger& ledger) {
  const std::string shared = packed(ledger.shared);
  Json value = {{"result", record::to_json(ledger.result)},
                {"shared", Json::binary(Json::binary_t::container_type(shared.begin(), shared.end()))}};
  put_keys(value, ledger, ledger_keys);
  if (ledger.golden) value["golden"] = to_json(*ledger.golden);
  const std::vector<std::uint8_t> bytes = Json::to_cbor(value);
  return {bytes.begin(), bytes.end()};
}

Ledger ledger_from_text(const std::string& text) {
  try {
    const Json value = Json::from_cbor(text);
    Ledger ledger;
    take_keys(value, ledger, ledger_keys);
    ledger.result = record::run_result_from_json(value.at("result"));
    const auto& shared = value.at("shared").get_binary();
    ledger.shared = unpacked(std::string(shared.begin(), shared.end()));
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
