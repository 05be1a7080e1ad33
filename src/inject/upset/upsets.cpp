#include "inject/upset/upsets.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/philox.h"
#include "inject/upset/dram.h"
#include "inject/upset/secded.h"

namespace bitrift::inject {
namespace {

using record::Ecc;
using record::UpsetMode;

constexpr double hours_of_1000_days = 24'000;
constexpr double hours_of_failures = 1e9;

unsigned chips(Ecc ecc) { return dram::data_chips + (ecc == Ecc::none ? 0 : dram::check_chips); }

/// The equally likely patterns of wrong bits among those of a chip in a word.
std::vector<unsigned> patterns(UpsetMode mode) {
  std::vector<unsigned> patterns;
  for (unsigned pattern = 0; pattern < 1U << dram::bits_of_chip; ++pattern) {
    const int wrong = std::popcount(pattern);
    if (mode == UpsetMode::bit ? wrong == 1 : mode != UpsetMode::word || wrong > 1) {
      patterns.push_back(pattern);
    }
  }
  return patterns;
}

unsigned codes(Ecc ecc) { return ecc == Ecc::secded ? secded_codes : 1; }

Decoded decode(Ecc ecc, unsigned code, unsigned chip, unsigned pattern) {
  // A code that corrects all bits of one chip in a word (Dell, "A white paper on the benefits of
  // chipkill-correct ECC for PC server main memory", IBM, 1997).
  if (ecc == Ecc::chipkill) return {};
  const auto bits = std::uint64_t{pattern};
  if (chip < dram::data_chips) {
    const std::uint64_t data = bits << dram::bits_of_chip * chip;
    return ecc == Ecc::none ? Decoded{false, data} : decode_secded(code, {data, 0});
  }
  return decode_secded(
      code, {0, static_cast<std::uint8_t>(bits << dram::bits_of_chip * (chip - dram::data_chips))});
}

/// The first entry whose `up_to` is above a fraction of the last one's.
template <typename Entry>
const Entry& pick(const std::vector<Entry>& entries, double unit) {
  const double sought = unit * entries.back().up_to;
  const auto found = std::ranges::upper_bound(entries, sought, {}, &Entry::up_to);
  return found == entries.end() ? entries.back() : *found;
}

/// An index, with a probability that is proportional to its weight.
std::size_t pick_weighted(const std::vector<double>& weights, double unit) {
  const double sought = unit * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t found = 0;
  double up_to = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    found = i;
    up_to += weights[i];
    if (sought < up_to) break;
  }
  return found;
}

}  // namespace

Upsets::Upsets(MemoryImage image, const record::FaultModel& model) : image_(std::move(image)) {
  for (std::size_t i = 0; i < names_of(UpsetMode{}).words.size(); ++i) {
    const auto mode = static_cast<UpsetMode>(i);
    if (model.upset_mode.value_or(mode) == mode) add(mode, model);
  }
  if (!modes_.empty()) return;
  fail_at(
      ErrorCode::bad_input, "ecc",
      "--ecc {} corrects or reports every upset of {} that strikes one chip, so none escapes, and there is "
      "nothing to inject; choose another code{}",
      name_of(*model.ecc), model.upset_mode ? fmt::format("a {}", name_of(*model.upset_mode)) : "memory",
      model.upset_mode ? " or another --upset-mode" : "");
}

Upsets::Decodings Upsets::decodings(UpsetMode mode, Ecc ecc) const {
  Decodings all;
  const std::vector<unsigned> struck = patterns(mode);
  for (unsigned i = 0; i < codes(ecc) * chips(ecc); ++i) {
    auto& of_chip = all.emplace_back();
    for (const std::uint64_t values : image_.value_bits()) {
      Decoding& decoding = of_chip.emplace_back();
      for (const unsigned pattern : struck) {
        const Decoded decoded = decode(ecc, i / chips(ecc), i % chips(ecc), pattern);
        if (!decoded.detected) decoding.silent.push_back(decoded.data & values);
      }
      const auto count = static_cast<double>(struck.size());
      decoding.unreported = static_cast<double>(decoding.silent.size()) / count;
      decoding.harmless = static_cast<double>(std::ranges::count(decoding.silent, 0U)) / count;
    }
  }
  return all;
}

Upsets::Chances Upsets::chances(const Decodings& decodings, const std::vector<std::uint64_t>& words) {
  Chances chances;
  for (const std::vector<Decoding>& of_chip : decodings) {
    double unreported = 1;
    double harmless = 1;
    for (std::size_t kind = 0; kind < words.size(); ++kind) {
      const auto count = static_cast<double>(words[kind]);
      unreported *= std::pow(of_chip[kind].unreported, count);
      harmless *= std::pow(of_chip[kind].harmless, count);
    }
    chances.escapes.push_back(unreported - harmless);
    chances.corrected += harmless;
    chances.escaped += unreported - harmless;
  }
  return chances;
}

void Upsets::add(UpsetMode mode, const record::FaultModel& model) {
  Mode added{decodings(mode, model.ecc.value()), {}, 0};
  const auto all_chips = static_cast<double>(added.decodings.size());
  // For one part of one chip with one of the codes, in events per 1,000 days.
  const double rate = dram::failures(mode, model.upset_rates.value_or(record::UpsetRates::transient)) /
                      dram::parts_of_chip(mode) * hours_of_1000_days / hours_of_failures /
                      codes(model.ecc.value());
  UpsetShare share{mode};
  std::map<std::vector<std::uint64_t>, Chances> known;  // by the words of a part
  for (MemoryImage::Part& part : image_.parts(mode)) {
    const auto [at, fresh] = known.try_emplace(part.words);
    Chances& of_part = at->second;
    if (fresh) of_part = chances(added.decodings, part.words);
    const double times = rate * static_cast<double>(part.copies);
    share.corrected += times * of_part.corrected;
    share.escaped += times * of_part.escaped;
    share.detected += times * std::max(all_chips - of_part.corrected - of_part.escaped, 0.0);
    if (of_part.escaped > 0) added.sources.push_back({std::move(part), of_part.escapes, share.escaped});
  }
  shares_.push_back(share);
  if (added.sources.empty()) return;
  added.up_to = share.escaped + (modes_.empty() ? 0 : modes_.back().up_to);
  modes_.push_back(std::move(added));
}

std::uint64_t Upsets::most_words() const noexcept {
  std::uint64_t most = 0;
  for (const Mode& mode : modes_) {
    for (const Source& source : mode.sources) {
      const auto& words = source.part.words;
      most = std::max(most, std::accumulate(words.begin(), words.end(), std::uint64_t{0}));
    }
  }
  return most;
}

std::vector<Upsets::WrongWord> Upsets::draw(std::uint64_t key, std::uint64_t number) const {
  const Mode& mode = pick(modes_, random_unit(key, number, 0));
  const Source& source = pick(mode.sources, random_unit(key, number, 1));
  Extent extent = source.part.extent;
  if (source.part.copies > 1) {
    const std::uint64_t further = random_below(key, number, 2, source.part.copies);
    extent.first += further;
    extent.end += further;
  }
  const std::size_t chip = pick_weighted(source.escapes, random_unit(key, number, 3));
  const std::uint64_t pattern_key = random_u64(key, number, 4);
  std::vector<WrongWord> wrong;
  // Patterns that leave every value right are drawn again.
  for (std::uint64_t attempt = 0; wrong.empty(); ++attempt) {
    image_.visit_words(extent, [&](const WordRun& run, std::uint64_t word) {
      const auto& silent = mode.decodings[chip][run.kind].silent;
      const std::uint64_t bits = silent[random_below(pattern_key, word, attempt, silent.size())];
      if (bits != 0) wrong.push_back({run.block, run.skipped + word - run.first, bits});
    });
  }
  return wrong;
}

}  // namespace bitrift::inject
