#include "study/cost/cost_summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "analyze/rates/quantile.h"

namespace bitrift::study {
namespace {

using record::Json;
using record::SaveMode;
using ByTurn = std::map<std::uint64_t, CostResult>;

class Results {
 public:
  explicit Results(const std::vector<StudyRow>& rows) : rows_(rows) {}
  [[nodiscard]] ByTurn of(const TimedKind& timed) const {
    ByTurn found;
    for (const StudyRow& row : rows_) {
      const auto* cost = std::get_if<CostResult>(&row.result);
      const bool this_one = cost != nullptr && row.format == timed.kind.format &&
                            row.writer == timed.kind.writer && cost->what == timed.what;
      if (this_one) found.emplace(cost->turn, *cost);
    }
    return found;
  }

 private:
  const std::vector<StudyRow>& rows_;
};

template <typename Get>
std::vector<double> values_of(const ByTurn& results, const Get& get) {
  std::vector<double> values;
  for (const auto& [turn, result] : results) {
    if (const std::optional<double> value = get(result)) values.push_back(*value);
  }
  return values;
}

template <typename Get>
std::optional<Spread> optional_spread(const ByTurn& results, const Get& get) {
  const std::vector<double> values = values_of(results, get);
  if (values.empty()) return std::nullopt;
  return spread_of(values);
}

std::optional<Ratio> speed_against(const ByTurn& reference, const ByTurn& ours) {
  std::vector<double> ratios, times;
  for (const auto& [turn, other] : reference) {
    const auto mine = ours.find(turn);
    if (mine == ours.end() || mine->second.block <= 0) continue;
    ratios.push_back(other.block / mine->second.block);
    times.push_back(other.block);
  }
  if (ratios.empty()) return std::nullopt;
  const Spread of_times = spread_of(times);
  return Ratio{spread_of(ratios), of_times.most > 2 * of_times.least};
}

// See CostLine::cost.
std::optional<Spread> cost_of_a_save(const ByTurn& without, const ByTurn& with) {
  std::vector<double> costs;
  for (const auto& [turn, result] : with) {
    const auto plain = without.find(turn);
    if (plain == without.end() || !result.step || !result.every) continue;
    costs.push_back(result.block + (*result.step - *plain->second.step) * static_cast<double>(*result.every));
  }
  if (costs.empty()) return std::nullopt;
  return spread_of(costs);
}

TimedKind native(Format format, SaveMode mode) { return {{format, FileWriter::native, ""}, {.mode = mode}}; }

CostLine line_of(const TimedKind& timed, const Results& results) {
  const ByTurn mine = results.of(timed);
  CostLine line{timed, mine.size()};
  if (mine.empty()) return line;
  line.bytes = mine.rbegin()->second.bytes;
  line.block = spread_of(values_of(mine, [](const CostResult& one) { return std::optional(one.block); }));
  line.persist = spread_of(values_of(mine, [](const CostResult& one) { return std::optional(one.persist); }));
  line.load = optional_spread(mine, [](const CostResult& one) { return one.load; });
  line.step = optional_spread(mine, [](const CostResult& one) { return one.step; });
  line.processor = optional_spread(mine, [](const CostResult& one) { return one.processor; });
  const CostCase& what = timed.what;
  if (!what.mode || what.model != 0) return line;
  line.as_fast_as_raw = speed_against(results.of(native(Format::raw, *what.mode)), mine);
  if (what.mode == SaveMode::sync)
    line.as_fast_as_torch_save = speed_against(results.of(native(Format::pytorch, SaveMode::sync)), mine);
  if (timed.kind.writer == FileWriter::bitrift && what.ranks == 1)
    line.cost = cost_of_a_save(results.of({timed.kind, {}}), mine);
  return line;
}

// For the lines of one route; with one rank both routes are the same.
std::vector<const CostLine*> lines_of(const std::vector<CostLine>& lines, SaveRoute route) {
  std::vector<const CostLine*> found;
  for (const CostLine& line : lines) {
    const CostCase& what = line.timed.what;
    const bool ours = line.timed.kind.format == Format::hdf5 && line.timed.kind.writer == FileWriter::bitrift;
    if (ours && what.mode == SaveMode::sync && line.turns > 0 && !what.shard_optimizer &&
        (what.route == route || what.ranks == 1))
      found.push_back(&line);
  }
  return found;
}

void add_model(const StudySpec& spec, SaveRoute route, CostSummary& summary) {
  std::vector<SaveSample> samples;
  std::set<int> ranks;
  std::set<std::uint64_t> sizes;
  const auto lines = lines_of(summary.lines, route);
  for (const CostLine* line : lines) {
    if (line->timed.what.ranks > 2) continue;
    ranks.insert(line->timed.what.ranks);
    sizes.insert(line->bytes);
    samples.push_back({line->timed.what.ranks, static_cast<double>(line->bytes), line->block.median});
  }
  if (ranks.size() < 2 || sizes.size() < 2) return;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const CostModel model = fit_cost(route, spec.cost.cores.value_or(cores), samples);
  summary.models.push_back(model);
  for (const CostLine* line : lines) {
    const int r = line->timed.what.ranks;
    if (r <= 2) continue;
    summary.predictions.push_back(
        {route, r, line->bytes, model.seconds(r, static_cast<double>(line->bytes)), line->block.median});
  }
}

Json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.least}, {"max", spread.most}};
}

void put_spread(Json& value, const char* key, const std::optional<Spread>& spread) {
  if (spread) value[key] = spread_json(*spread);
}

void put_ratio(Json& value, const char* key, const std::optional<Ratio>& ratio) {
  if (!ratio) return;
  value[key] = spread_json(ratio->spread);
  value[key]["unstable"] = ratio->unstable;
}

Json line_json(const CostLine& line) {
  const CostCase& what = line.timed.what;
  Json value = {{"format", line.timed.kind.format},
                {"writer", line.timed.kind.writer},
                {"route", what.route},
                {"ranks", what.ranks},
                {"model", what.model},
                {"turns", line.turns}};
  if (what.shard_optimizer) value["shard_optimizer"] = *what.shard_optimizer;
  if (what.mode) {
    value["mode"] = *what.mode;
    value["bytes"] = line.bytes;
    value["block_seconds"] = spread_json(line.block);
    value["persist_seconds"] = spread_json(line.persist);
  }
  put_spread(value, "load_seconds", line.load);
  put_spread(value, "step_seconds", line.step);
  put_spread(value, "processor_seconds", line.processor);
  put_spread(value, "cost_seconds", line.cost);
  put_ratio(value, "as_fast_as_raw", line.as_fast_as_raw);
  put_ratio(value, "as_fast_as_torch_save", line.as_fast_as_torch_save);
  return value;
}

std::string spread_text(const Spread& spread) {
  return fmt::format("{:.4f} ({:.4f} .. {:.4f})", spread.median, spread.least, spread.most);
}

std::string ratio_text(const std::optional<Ratio>& ratio) {
  if (!ratio) return "-";
  return fmt::format("{:.2f} ({:.2f} .. {:.2f}){}", ratio->spread.median, ratio->spread.least,
                     ratio->spread.most, ratio->unstable ? " unstable" : "");
}

std::string line_text(const CostLine& line) {
  const CostCase& what = line.timed.what;
  std::string text = fmt::format("{:<13} {:<8} {:<5} {:<11} {:>5} {:>12}", name_of(line.timed.kind.format),
                                 name_of(line.timed.kind.writer), what.mode ? name_of(*what.mode) : "none",
                                 name_of(what.route), what.ranks, line.bytes);
  if (what.mode) {
    text += fmt::format("  {:<28} {:>8} {:<30} {:<30}", spread_text(line.block),
                        what.mode == SaveMode::async ? fmt::format("{:.3f}", line.persist.median) : "-",
                        ratio_text(line.as_fast_as_raw), ratio_text(line.as_fast_as_torch_save));
  }
  if (line.cost) text += fmt::format(" costs {} s", spread_text(*line.cost));
  if (line.step) text += fmt::format(" step {:.4f} s", line.step->median);
  if (what.shard_optimizer) text += *what.shard_optimizer ? " replicas, shards" : " replicas";
  return text + "\n";
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {analyze::quantile(values, 0.5), *least, *most};
}

CostSummary summarize_cost(const StudySpec& spec, const std::vector<TimedKind>& cases,
                           const std::vector<StudyRow>& rows) {
  CostSummary summary;
  const Results results(rows);
  for (const TimedKind& timed : cases) summary.lines.push_back(line_of(timed, results));
  for (const FileKind& kind : timed_kinds(spec)) {
    if (std::none_of(cases.begin(), cases.end(), [&](const TimedKind& one) { return one.kind == kind; }))
      summary.missing.push_back(kind);
  }
  for (const SaveRoute route : {SaveRoute::gather, SaveRoute::shared}) add_model(spec, route, summary);
  if (!spec.cost.cluster || summary.models.size() < 2) return summary;
  // The time in which a rank checks and copies: the part of a shared save that ranks do in parallel.
  const double local = summary.models[1].spread;
  for (const CostModel& model : summary.models) {
    for (int ranks = 64; ranks <= 4096; ranks *= 2) {
      const std::uint64_t bytes = spec.cost.cluster->bytes;
      summary.predictions.push_back(
          {model.route, ranks, bytes,
           modelled_seconds(model, *spec.cost.cluster, local, ranks, static_cast<double>(bytes))});
    }
  }
  return summary;
}

Json cost_json(const CostSummary& summary) {
  Json value = {{"saves", Json::array()}, {"models", Json::array()}, {"predictions", Json::array()}};
  for (const CostLine& line : summary.lines) value["saves"].push_back(line_json(line));
  value["not_installed"] = Json::array();
  for (const FileKind& kind : summary.missing) value["not_installed"].push_back(kind.format);
  for (const CostModel& model : summary.models) {
    value["models"].push_back({{"route", model.route},
                               {"cores", model.cores},
                               {"fixed", model.fixed},
                               {"rank", model.rank},
                               {"byte", model.byte},
                               {"spread", model.spread}});
  }
  for (const Prediction& one : summary.predictions) {
    Json prediction = {{"route", one.route},
                       {"ranks", one.ranks},
                       {"bytes", one.bytes},
                       {"seconds", one.seconds},
                       {"kind", one.measured ? "predicted" : "modelled"}};
    if (one.measured) prediction["measured"] = *one.measured;
    value["predictions"].push_back(std::move(prediction));
  }
  return value;
}

std::string cost_table(const CostSummary& summary) {
  const bool any = std::any_of(summary.lines.begin(), summary.lines.end(),
                               [](const CostLine& line) { return line.turns > 0; });
  if (!any) return "";
  std::string text = fmt::format("{:<13} {:<8} {:<5} {:<11} {:>5} {:>12}  {:<28} {:>8} {:<30} {:<30}\n",
                                 "format", "writer", "mode", "route", "ranks", "bytes", "blocks for s",
                                 "persist", "speed / raw", "speed / torch.save");
  for (const CostLine& line : summary.lines) text += line_text(line);
  for (const FileKind& kind : summary.missing)
    text += fmt::format("{:<13} {:<8} not installed\n", name_of(kind.format), name_of(kind.writer));
  text +=
      "medians over turns (min .. max); async is compared with a memcpy; unstable: the reference's slowest "
      "time is more than twice its fastest\n";
  for (const Prediction& one : summary.predictions) {
    text += fmt::format(
        "{} with {} ranks, {} bytes: {:.4g} s {}\n", name_of(one.route), one.ranks, one.bytes, one.seconds,
        one.measured ? fmt::format("predicted from 1 and 2 ranks, {:.4g} s measured ({:+.0f} %)",
                                   *one.measured, 100 * (one.seconds / *one.measured - 1))
                     : std::string("modelled"));
  }
  return text + "\n";
}

}  // namespace bitrift::study
