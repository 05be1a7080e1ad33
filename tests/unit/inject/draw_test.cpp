// Which faults are drawn: each test follows the streams of docs/faults.md by itself.
#include "inject/draw/draw.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/permutation.h"
#include "core/philox.h"
#include "inject/draw/fault_plan.h"
#include "unit/inject/written.h"
#include "unit/scratch.h"

namespace bitrift::inject::draw_test {
namespace {

using testing::Hits;
using testing::hits_of;
using testing::Scratch;
using testing::write_tensors;
using testing::Written;

/// 5 x 16 + 7 x 32 + 3 x 8 = 328 bits in 15 elements. Every finite exponent is near to those of infinity
/// somewhere.
const std::vector<Written> tensors = {
    {"model/a.weight", "float16", {0x3c00, 0xc000, 0x7bff, 0x0001, 0x3800}},
    {"model/b.weight",
     "float32",
     {0x3f800000, 0xc0200000, 0x7f7fffff, 0x00000001, 0xbf000000, 0x7e800000, 0x80000000}},
    {"model/c.count", "int8", {0x00, 0xff, 0x7f}},
};
constexpr std::uint64_t bits_in_all = 328;

unsigned width_of(const Written& tensor) { return 8 * number_format(tensor.format).value().bytes; }

/// Whether a pattern is a number: the exponent is not all ones.
bool finite(const std::string& format, std::uint64_t pattern) {
  if (format == "float16") return (pattern & 0x7c00) != 0x7c00;
  return format != "float32" || (pattern & 0x7f800000) != 0x7f800000;
}

struct Place {
  std::size_t tensor = 0;
  std::uint64_t element = 0;
  unsigned bit = 0;
};

/// Every place where `length` adjacent bits fit, in the order of docs/faults.md.
std::vector<Place> places_of(unsigned length = 1) {
  std::vector<Place> places;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::uint64_t element = 0; element < tensors[t].patterns.size(); ++element) {
      for (unsigned bit = 0; bit + length <= width_of(tensors[t]); ++bit) places.push_back({t, element, bit});
    }
  }
  return places;
}

/// Every element; the bit is to be drawn.
std::vector<Place> elements() {
  std::vector<Place> places;
  for (const Place& place : places_of()) {
    if (place.bit == 0) places.push_back(place);
  }
  return places;
}

/// Inverts bits sample by sample.
struct Expected {
  Hits hits;
  std::uint64_t placed = 0;
  std::uint64_t redrawn = 0;
  bool allow_nan = true;

  void flip(const Place& place, std::uint64_t shape = 1) {
    const Written& tensor = tensors[place.tensor];
    const std::uint64_t mask = shape << place.bit;
    const std::uint64_t old = tensor.patterns[place.element];
    const auto found = hits.find({tensor.path, place.element});
    if (found != hits.end() && (found->second.bits & mask) != 0) return;
    const testing::Hit before = found == hits.end() ? testing::Hit{0, old, old} : found->second;
    if (!allow_nan && !finite(tensor.format, before.after ^ mask)) {
      ++redrawn;
      return;
    }
    ++placed;
    hits[{tensor.path, place.element}] = {before.bits | mask, old, before.after ^ mask};
  }
};

class Draws : public ::testing::Test {
 protected:
  Draws() : reader_(write_tensors(scratch_ / "c.h5", tensors)) {}

  static record::FaultModel model(std::uint64_t seed) {
    record::FaultModel made;
    made.seed = seed;
    return made;
  }
  void expect(const record::FaultModel& model, const Expected& expected) const {
    const Plan drawn = plan(reader_, model);
    EXPECT_EQ(hits_of(drawn.list), expected.hits) << "seed " << model.seed;
    EXPECT_EQ(drawn.redrawn, expected.redrawn);
    // What is drawn without the count is the same: only the sites may be numbered otherwise.
    EXPECT_EQ(hits_of(draw(reader_, model)), expected.hits);
  }
  /// One fault an element, in the order in which elements are drawn.
  static Expected by_element(const record::FaultModel& model, std::uint64_t count) {
    const std::vector<Place> all = elements();
    const Permutation order(all.size(), derive_key(model.seed, "inject.element"));
    Expected expected;
    expected.allow_nan = model.allow_nan;
    for (std::uint64_t i = 0; expected.placed < count; ++i) {
      Place place = all[order(i)];
      const unsigned width = width_of(tensors[place.tensor]);
      place.bit = static_cast<unsigned>(random_below(derive_key(model.seed, "inject.bit"), i, 0, width));
      expected.flip(place);
    }
    return expected;
  }

  Scratch scratch_;
  ckpt::Reader reader_;
};

TEST_F(Draws, AFractionIsRoundedAndHitsEachElementOnce) {
  for (const auto& [fraction, count] :
       {std::pair{0.1, 2U}, {0.5, 8U}, {0.43, 6U}, {0.0334, 1U}, {1.0, 15U}}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      record::FaultModel wanted = model(seed);
      wanted.fraction = fraction;
      const Expected expected = by_element(wanted, count);
      EXPECT_EQ(expected.hits.size(), count);
      expect(wanted, expected);
    }
  }
  record::FaultModel little = model(1);
  little.fraction = 0.033;  // of 15 elements: 0.495
  EXPECT_ERROR(static_cast<void>(plan(reader_, little)), bad_input, "less than half an element");
}

TEST_F(Draws, TheMeasureElementDrawsElementsThenBits) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    record::FaultModel wanted = model(seed);
    wanted.measure = record::Measure::element;
    wanted.count = 9;
    expect(wanted, by_element(wanted, 9));
  }
}

TEST_F(Draws, TheMeasureTensorDrawsTensorsThenElementsThenBits) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    record::FaultModel wanted = model(seed);
    wanted.measure = record::Measure::tensor;
    wanted.count = 40;
    Expected expected;
    for (std::uint64_t i = 0; expected.placed < 40; ++i) {
      const std::size_t t = random_below(derive_key(seed, "inject.tensor"), i, 0, tensors.size());
      const auto pick = [&](const char* purpose, std::uint64_t most) {
        return random_below(derive_key(seed, purpose), i, 0, most);
      };
      expected.flip({t, pick("inject.tensor.element", tensors[t].patterns.size()),
                     static_cast<unsigned>(pick("inject.tensor.bit", width_of(tensors[t])))});
    }
    expect(wanted, expected);
  }
}

/// Flips every bit that independent throws with this probability hit.
void throw_bits(Expected& expected, std::uint64_t seed, double rate) {
  const std::vector<Place> all = places_of();
  std::uint64_t bit = 0;
  for (std::uint64_t i = 0;; ++i) {
    const double u = random_unit(derive_key(seed, "inject.ber"), i, 0);
    bit += static_cast<std::uint64_t>(std::floor(std::log(1 - u) / std::log(1 - rate)));
    if (bit >= all.size()) return;
    expected.flip(all[bit]);
    ++bit;
  }
}

TEST_F(Draws, ABitErrorRateLeavesGeometricGaps) {
  for (const double rate : {0.004, 0.05, 0.7}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      record::FaultModel wanted = model(seed);
      wanted.ber = rate;
      Expected expected;
      throw_bits(expected, seed, rate);
      expect(wanted, expected);
    }
  }
}

TEST_F(Draws, ABitErrorRateOfOneHitsEveryBit) {
  record::FaultModel wanted = model(4);
  wanted.ber = 1;
  Expected expected;
  for (const Place& place : places_of()) expected.flip(place);
  expect(wanted, expected);
}

TEST_F(Draws, ABitErrorRateIsTheMeanOfHitsAndTheirVariance) {
  constexpr int runs = 3000;
  constexpr double rate = 0.03;
  double sum = 0;
  double squares = 0;
  for (int seed = 0; seed < runs; ++seed) {
    record::FaultModel wanted = model(static_cast<std::uint64_t>(seed));
    wanted.ber = rate;
    double hits = 0;
    for (const record::ElementChange& one : draw(reader_, wanted).changes) hits += std::popcount(one.bits);
    sum += hits;
    squares += hits * hits;
  }
  // Binomial: mean n p, variance n p (1 - p); bounds of four standard errors.
  const double variance = bits_in_all * rate * (1 - rate);
  EXPECT_NEAR(sum / runs, bits_in_all * rate, 4 * std::sqrt(variance / runs));
  EXPECT_NEAR(squares / runs - sum / runs * sum / runs, variance, 4 * variance * std::sqrt(2.0 / runs));
}

TEST_F(Draws, WhatWouldBeNoNumberIsDrawnAgainAndCounted) {
  std::uint64_t redrawn = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    record::FaultModel wanted = model(seed);
    wanted.allow_nan = false;
    wanted.count = 150;
    Expected expected;
    expected.allow_nan = false;
    const std::vector<Place> all = places_of();
    const Permutation order(all.size(), derive_key(seed, "inject"));
    for (std::uint64_t i = 0; expected.placed < 150; ++i) expected.flip(all[order(i)]);
    redrawn += expected.redrawn;
    expect(wanted, expected);
    wanted.measure = record::Measure::element;
    wanted.count = 9;
    expect(wanted, by_element(wanted, 9));
  }
  EXPECT_GT(redrawn, 10U);
}

TEST_F(Draws, WhatABitErrorRateMustNotHitIsReplacedByOtherBits) {
  std::uint64_t redrawn = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    record::FaultModel wanted = model(seed);
    wanted.allow_nan = false;
    wanted.ber = 0.2;
    Expected all_hits;
    throw_bits(all_hits, seed, 0.2);
    Expected expected;
    expected.allow_nan = false;
    throw_bits(expected, seed, 0.2);
    const std::vector<Place> all = places_of();
    const Permutation order(all.size(), derive_key(seed, "inject"));
    for (std::uint64_t i = 0; expected.placed < all_hits.placed; ++i) expected.flip(all[order(i)]);
    redrawn += expected.redrawn;
    expect(wanted, expected);
  }
  EXPECT_GT(redrawn, 10U);
}

TEST_F(Draws, BurstsInOneElementNeverOverlap) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    record::FaultModel wanted = model(seed);
    wanted.what = record::FaultKind::burst;
    wanted.length = 5;
    wanted.count = 30;
    const std::vector<Place> all = places_of(5);
    const Permutation order(all.size(), derive_key(seed, "inject"));
    Expected expected;
    for (std::uint64_t i = 0; expected.placed < 30; ++i) expected.flip(all[order(i)], 0b11111);
    expect(wanted, expected);
  }
}

TEST_F(Draws, AMaskLiesAtBitZeroOrWhereItFits) {
  record::FaultModel wanted = model(3);
  wanted.what = record::FaultKind::mask;
  wanted.mask = "101";
  EXPECT_EQ(population_of(reader_, [&] { return wanted.count = 1, wanted; }()).bits(), 15U);
  for (const auto& [key, hit] : hits_of(plan(reader_, [&] { return wanted.count = 15, wanted; }()).list)) {
    EXPECT_EQ(hit.bits, 0b101U) << key.first;
    EXPECT_EQ(hit.after, hit.before ^ 0b101U);
  }
  wanted.mask_at = record::MaskPlace::random;
  const std::vector<Place> all = places_of(3);  // 5 x 14 + 7 x 30 + 3 x 6
  EXPECT_EQ(all.size(), 298U);
  EXPECT_EQ(population_of(reader_, wanted).bits(), all.size());
  const Permutation order(all.size(), derive_key(3, "inject"));
  wanted.count = 60;
  Expected expected;
  for (std::uint64_t i = 0; expected.placed < 60; ++i) expected.flip(all[order(i)], 0b101);
  expect(wanted, expected);
}

TEST_F(Draws, WhatIsStuckKeepsItsFaultWhereNothingChanges) {
  for (const bool one : {false, true}) {
    record::FaultModel wanted = model(8);
    wanted.what = one ? record::FaultKind::stuck_at_1 : record::FaultKind::stuck_at_0;
    wanted.count = 60;
    const std::vector<Place> all = places_of();
    const Permutation order(all.size(), derive_key(8, "inject"));
    Hits expected;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const Written& tensor = tensors[all[order(i)].tensor];
      const std::uint64_t element = all[order(i)].element;
      const std::uint64_t mask = std::uint64_t{1} << all[order(i)].bit;
      testing::Hit& hit = expected[{tensor.path, element}];
      if (hit.bits == 0) hit.before = hit.after = tensor.patterns[element];
      hit.bits |= mask;
      hit.after = one ? hit.after | mask : hit.after & ~mask;
    }
    const record::FaultList list = plan(reader_, wanted).list;
    EXPECT_EQ(hits_of(list), expected);
    const auto same = std::count_if(expected.begin(), expected.end(), [](const auto& entry) {
      return entry.second.before == entry.second.after;
    });
    EXPECT_EQ(unchanged(list), static_cast<std::uint64_t>(same));
  }
}

}  // namespace
}  // namespace bitrift::inject::draw_test
