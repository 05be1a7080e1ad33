#include "analyze/across/sample.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "analyze/observations.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/number/number_format.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::OutcomeClass;

constexpr const char* kSchema = "bitrift/baseline/3";
constexpr std::string_view kSchemaStem = "bitrift/baseline/";
// One letter a draw, in the order of OutcomeClass.
constexpr std::string_view kLetters = "msc";
constexpr std::size_t kDigits = 8;  // of a CRC

std::uint32_t crc_of(const record::Faults& faults) {
  std::uint32_t crc = 0;
  const auto add_number = [&crc](std::uint64_t number) { crc = crc32c(&number, sizeof number, crc); };
  const auto add_text = [&](const std::string& text) {
    add_number(text.size());
    crc = crc32c(text.data(), text.size(), crc);
  };
  faults.visit([&]<typename List>(const List& list) {
    if constexpr (std::is_same_v<List, record::FaultList>) {
      for (const record::ElementChange& change : list.changes) {
        const record::FaultSite& site = list.sites.at(change.site);
        add_text(site.tensor);
        add_text(site.dtype);
        add_text(site.structure);
        for (const std::uint64_t number :
             {change.element, change.bits, change.old_pattern, change.new_pattern})
          add_number(number);
      }
    } else {
      for (const auto& fault : list) add_text(to_text(fault));
    }
  });
  return crc;
}

double size_of(const record::Faults& faults) {
  double largest = no_size;
  for (const record::ElementChange& change : faults.bits().changes) {
    const record::FaultSite& site = faults.bits().sites.at(change.site);
    const auto format = number_format(site.dtype);
    if (!format || site.plane != record::Plane::value) continue;
    const double size =
        std::abs(decode_number(*format, change.new_pattern) - decode_number(*format, change.old_pattern));
    largest = std::max(largest, std::isfinite(size) ? size : std::numeric_limits<double>::max());
  }
  return largest;
}

// The order depends on the results only through sizes.
Order order_of_cells(const Sample& sample) {
  Observations sizes;
  for (const auto& [id, cell] : sample.cells) sizes.cells[id].bits = cell.bits;
  return order_of(sample.spec, sample.rounds, sizes);
}

std::string letters_of(const SampledCell& cell) {
  std::string text;
  for (const OutcomeClass outcome : cell.outcomes) text += kLetters[static_cast<std::size_t>(outcome)];
  return text;
}

std::string digits_of(const SampledCell& cell) {
  std::string text;
  for (const std::uint32_t crc : cell.faults) text += fmt::format("{:08x}", crc);
  return text;
}

Json rises_of_cell(const SampledCell& cell) {
  Json list = Json::array();
  for (const MetricValues& rises : cell.rises) list.push_back(rises.empty() ? Json() : values_to_json(rises));
  return list;
}

Json sizes_of_cell(const SampledCell& cell) {
  Json list = Json::array();
  for (const double size : cell.sizes) list.push_back(size == no_size ? Json() : Json(size));
  return list;
}

std::vector<double> sizes_from_json(const Json& value) {
  std::vector<double> sizes;
  for (const Json& one : value) {
    sizes.push_back(one.is_null() ? no_size : one.get<double>());
    if (one.is_null() || (sizes.back() >= 0 && std::isfinite(sizes.back()))) continue;
    fail(ErrorCode::bad_file, "\"sizes\" holds {}, which is not the size of a fault", sizes.back());
  }
  return sizes;
}

std::uint32_t number_of(std::string_view digits) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (error == std::errc() && end == digits.data() + digits.size()) return number;
  fail(ErrorCode::bad_file, "\"faults\" holds '{}', which is not a hexadecimal number", digits);
}

SampledCell cell_from_json(const Json& value) {
  SampledCell cell;
  cell.bits = value.at("bits").get<std::uint64_t>();
  for (const char letter : value.at("outcomes").get<std::string>()) {
    const std::size_t at = kLetters.find(letter);
    if (at == std::string_view::npos)
      fail(ErrorCode::bad_file, "\"outcomes\" may hold only the letters m, s and c");
    cell.outcomes.push_back(static_cast<OutcomeClass>(at));
  }
  const auto faults = value.at("faults").get<std::string>();
  if (faults.size() != kDigits * cell.outcomes.size())
    fail(ErrorCode::bad_file, "\"faults\" needs eight digits for each letter of \"outcomes\"");
  for (std::size_t at = 0; at < faults.size(); at += kDigits)
    cell.faults.push_back(number_of(std::string_view(faults).substr(at, kDigits)));
  for (const Json& one : value.at("rises"))
    cell.rises.push_back(one.is_null() ? MetricValues{} : values_from_json(one));
  if (cell.rises.size() != cell.outcomes.size())
    fail(ErrorCode::bad_file, "\"rises\" needs one entry for each letter of \"outcomes\"");
  cell.sizes = sizes_from_json(value.at("sizes"));
  if (cell.sizes.size() != cell.outcomes.size())
    fail(ErrorCode::bad_file, "\"sizes\" needs one entry for each letter of \"outcomes\"");
  if (cell.bits < cell.outcomes.size())
    fail(ErrorCode::bad_file, "a stratum of {} bits has {} outcomes", cell.bits, cell.outcomes.size());
  return cell;
}

// Checks that each row has a rise of every judged metric of its arm.
void check_rises(const Sample& sample) {
  for (const auto& [id, cell] : sample.cells) {
    const std::size_t metrics = sample.references.at(id.first).metrics.size();
    for (std::size_t draw = 0; draw < cell.rises.size(); ++draw) {
      const MetricValues& rises = cell.rises[draw];
      if (!rises.empty() && cell.outcomes[draw] == OutcomeClass::crash)
        fail(ErrorCode::bad_file, "\"rises\" of {}/{} has values for draw {}, which crashed", id.first,
             id.second, draw);
      if (rises.empty() || rises.size() == metrics) continue;
      fail(ErrorCode::bad_file, "\"rises\" of {}/{} hold {} values, \"metrics\" has {}", id.first, id.second,
           rises.size(), metrics);
    }
  }
}

void check_orders(const Sample& sample) {
  for (const auto& [arm, reference] : sample.references) {
    if (reference.golden.size() == static_cast<std::size_t>(sample.spec.orders)) continue;
    fail(ErrorCode::bad_file, "\"references\" of arm {} has {} golden runs, its spec has {} data orders", arm,
         reference.golden.size(), sample.spec.orders);
  }
}

void check_schema_name(const Json& value) {
  const std::string schema = value.is_object() && value.contains("schema") && value["schema"].is_string()
                                 ? value["schema"].get<std::string>()
                                 : "";
  if (schema == kSchema) return;
  if (schema.starts_with(kSchemaStem)) {
    fail(ErrorCode::bad_file, "its schema is {}, expected {}: another version of bitrift wrote it", schema,
         kSchema);
  }
  fail(ErrorCode::bad_file, "not a baseline (its schema is {}, expected {})",
       schema.empty() ? "missing" : "'" + schema + "'", kSchema);
}

}  // namespace

const SampledCell* Sample::cell(const std::string& arm, const std::string& stratum) const {
  const auto found = cells.find({arm, stratum});
  return found == cells.end() || found->second.outcomes.empty() ? nullptr : &found->second;
}

std::uint64_t Sample::trials() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [id, cell] : cells) sum += cell.outcomes.size();
  return sum;
}

std::uint64_t Sample::draws_per_arm() const noexcept {
  std::uint64_t draws = 0;
  for (const record::Round& round : rounds) draws += round.draws();
  if (rounds.empty()) {
    const auto& share = order.rounds.front().share;
    draws = std::accumulate(share.begin(), share.end(), std::uint64_t{0});
  }
  return draws;
}

Sample sample_of(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
                 const Trust& trust, const std::vector<record::Round>& rounds,
                 const std::map<std::string, std::string>& base_digests) {
  Sample sample;
  sample.spec = spec;
  sample.base_digests = base_digests;
  sample.rounds = rounds;
  const Observations seen = observe(rows, spec, trust);
  for (const auto& [id, stratum] : seen.cells) {
    SampledCell& cell = sample.cells[id];
    cell.bits = stratum.bits;
    for (const record::Reason reason : stratum.outcomes) cell.outcomes.push_back(record::class_of(reason));
    cell.faults.resize(cell.outcomes.size());
    cell.sizes.resize(cell.outcomes.size());
    cell.rises.resize(cell.outcomes.size());
  }
  for (const record::TrialRecord& row : rows) {
    if (row.kind != record::TrialKind::trial) continue;
    SampledCell& cell = sample.cells.at({row.id.arm, row.id.stratum});
    if (row.id.draw >= cell.faults.size()) continue;
    cell.faults[row.id.draw] = crc_of(row.faults);
    cell.sizes[row.id.draw] = size_of(row.faults);
    const record::Reason reason = seen.cells.at({row.id.arm, row.id.stratum}).outcomes[row.id.draw];
    if (reason == record::Reason::bitwise || record::class_of(reason) == OutcomeClass::crash) continue;
    cell.rises[row.id.draw] = rises_of(row, trust.controls.at(row.id.arm), trust.judging.judge);
  }
  for (const design::Arm& arm : spec.arms) sample.references[arm.name] = arm_reference(rows, arm.name, trust);
  const ArmControls& first = trust.controls.at(spec.arms.front().name);
  sample.horizon = first.horizon;
  sample.horizon_step = first.golden.front().evaluations.at(first.horizon - 1).step;
  sample.order = order_of_cells(sample);
  return sample;
}

Json to_json(const Sample& sample) {
  Json arms = Json::object();
  for (const auto& [id, cell] : sample.cells) {
    arms[id.first][id.second] = {{"bits", cell.bits},
                                 {"outcomes", letters_of(cell)},
                                 {"faults", digits_of(cell)},
                                 {"sizes", sizes_of_cell(cell)},
                                 {"rises", rises_of_cell(cell)}};
  }
  Json references = Json::object();
  for (const auto& [arm, reference] : sample.references) references[arm] = to_json(reference);
  Json rounds = Json::array();
  for (const record::Round& round : sample.rounds) rounds.push_back(record::to_json(round));
  return {{"schema", kSchema},
          {"spec", design::to_json(sample.spec)},
          {"base_digests", sample.base_digests},
          {"horizon", sample.horizon},
          {"horizon_step", sample.horizon_step},
          {"rounds", std::move(rounds)},
          {"arms", std::move(arms)},
          {"references", std::move(references)}};
}

Sample sample_from_json(const Json& value) {
  check_schema_name(value);
  try {
    Sample sample;
    sample.spec = design::campaign_spec_from_json(value.at("spec"));
    sample.base_digests = value.at("base_digests").get<std::map<std::string, std::string>>();
    sample.horizon = value.at("horizon").get<std::size_t>();
    sample.horizon_step = value.at("horizon_step").get<std::int64_t>();
    for (const Json& round : value.at("rounds")) sample.rounds.push_back(record::round_from_json(round));
    for (const auto& [arm, strata] : value.at("arms").items()) {
      if (std::none_of(sample.spec.arms.begin(), sample.spec.arms.end(),
                       [&arm = arm](const design::Arm& one) { return one.name == arm; }))
        fail(ErrorCode::bad_file, "arm '{}' is not in its spec", arm);
      for (const auto& [stratum, cell] : strata.items()) sample.cells[{arm, stratum}] = cell_from_json(cell);
    }
    for (const design::Arm& arm : sample.spec.arms)
      sample.references[arm.name] = arm_reference_from_json(value.at("references").at(arm.name));
    check_rises(sample);
    check_orders(sample);
    sample.order = order_of_cells(sample);
    return sample;
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "not a whole baseline ({})", error.what());
  }
}

}  // namespace bitrift::analyze
