#include "record/round.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "record/provenance.h"
#include "record/sampling.h"

namespace bitrift::record {
namespace {

constexpr std::tuple draws_keys = {Key{"first_draw", &StratumDraws::first_draw},
                                   Key{"draws", &StratumDraws::draws}};

constexpr std::tuple round_keys = {Key{"round", &Round::number},
                                   Key{"seed", &Round::seed},
                                   Key{"arms", &Round::arms},
                                   Key{"joining", &Round::joining, Presence::unless_default},
                                   Key{"picks", &Round::picks, Presence::unless_default},
                                   Key{"stop", &Round::stop}};

Json to_json(const StratumDraws& cell, bool by_share) {
  Json value = cell.stratum;
  put_keys(value, cell, draws_keys);
  if (by_share) value["share"] = cell.share;
  return value;
}

StratumDraws cell_from_json(const Json& value) {
  StratumDraws cell;
  value.get_to(cell.stratum);
  take_keys(value, cell, draws_keys);
  cell.share = value.value("share", std::uint64_t{0});
  return cell;
}

}  // namespace

std::uint64_t Round::draws() const noexcept {
  std::uint64_t sum = 0;
  for (const StratumDraws& cell : strata) sum += cell.draws;
  return sum;
}

const Reached* Round::widest() const noexcept {
  const auto found = std::max_element(reached.begin(), reached.end(), [](const Reached& a, const Reached& b) {
    return a.half_width < b.half_width;
  });
  return found == reached.end() ? nullptr : &*found;
}

std::vector<Round> with_all_strata(std::vector<Round> rounds, const std::vector<Stratum>& strata) {
  for (Round& round : rounds) {
    if (round.strata.size() == strata.size()) continue;
    std::vector<StratumDraws> cells;
    for (const Stratum& stratum : strata) {
      const auto found =
          std::find_if(round.strata.begin(), round.strata.end(),
                       [&](const StratumDraws& cell) { return cell.stratum.name == stratum.name; });
      cells.push_back(found == round.strata.end() ? StratumDraws{stratum, 0, 0, 0} : *found);
    }
    round.strata = std::move(cells);
  }
  return rounds;
}

Json to_json(const Round& round) {
  Json strata = Json::array();
  for (const StratumDraws& cell : round.strata) strata.push_back(to_json(cell, round.picks > 0));
  Json value = {{"schema", schema_version},
                {"measure", Measure::bit},
                {"plane", Plane::value},
                {"strata", std::move(strata)}};
  put_keys(value, round, round_keys);
  if (!round.reached.empty()) {
    Json reached = Json::array();
    for (const Reached& one : round.reached) {
      reached.push_back({{"arm", one.arm},
                         {"outcome", outcome_key(one.outcome)},
                         {"stratum", one.stratum},
                         {"half_width", one.half_width}});
    }
    value["reached"] = reached;
  }
  return value;
}

Round round_from_json(const Json& value) {
  check_schema(value);
  try {
    Round round;
    take_keys(value, round, round_keys);
    for (const auto& cell : value.at("strata")) round.strata.push_back(cell_from_json(cell));
    if (value.contains("reached")) {
      for (const auto& one : value["reached"]) {
        round.reached.push_back({one.at("arm"), outcome_from_key(one.at("outcome")), one.at("stratum"),
                                 one.at("half_width").get<double>()});
      }
    }
    return round;
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "not the plan of a round: {}", error.what());
  }
}

Json sampling_state(const Sampling& asked, const Round& last) {
  return {{"asked", to_json(asked)},
          {"round", last.number},
          {"reached", to_json(last).value("reached", Json::array())},
          {"stop", last.stop ? name_of(*last.stop) : ""}};
}

const char* stop_text(Stop stop) noexcept {
  switch (stop) {
    case Stop::half_width:
      return "every interval of the target has the half-width asked for";
    case Stop::max_trials:
      return "sampling.max_trials is spent";
    case Stop::exhausted:
      return "every fault of every stratum was tried";
    case Stop::plan:
      break;
  }
  return "all planned trials are done";
}

}  // namespace bitrift::record
