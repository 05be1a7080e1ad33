#include "design/kind/run/compute_pattern.h"

#include <array>
#include <numeric>
#include <set>

#include <fmt/ranges.h>

#include "core/error.h"
#include "design/kind/bit_strata.h"
#include "design/kind/sentences.h"

namespace bitrift::design {
namespace {

using record::ComputeEffect;
using record::Document;
using record::Json;

constexpr const char* anywhere = "random";
// Each is a fault of its own in a row of the journal.
constexpr std::int64_t most_flips = 1000;

// The part of a pattern that the object at `pointer` describes. What it does not name is as in `start`.
ComputePattern shape_from(const Document& document, const std::string& pointer, ComputePattern start) {
  const Json& value = document.value.at(Json::json_pointer(pointer));
  ComputePattern shape = std::move(start);
  const auto refuse = [&](const char* key, const std::string& why) {
    fail(ErrorCode::bad_input, "{}: {}", document.where(pointer + "/" + key), why);
  };
  shape.effect = value.value("effect", shape.effect);
  shape.elements = value.value("elements", shape.elements);
  if (value.contains("stride")) {
    const Json& stride = value["stride"];
    shape.scattered = stride.is_string();
    if (shape.scattered && stride != anywhere) {
      refuse("stride",
             fmt::format("expected a number of elements or \"{}\"; found {}", anywhere, stride.dump()));
    }
    shape.stride = shape.scattered ? 1 : stride.get<std::int64_t>();
    if ((shape.stride != 1 || shape.scattered) && shape.elements == 1)
      refuse("stride", "how far apart elements are means nothing for one element; give 'elements', too");
  } else if (shape.elements == 1) {
    shape.stride = 1;
    shape.scattered = false;
  }
  shape.bits = value.value("bits", shape.bits);
  shape.adjacent = value.value("adjacent", shape.adjacent);
  if (shape.adjacent && shape.bits == 1)
    refuse("adjacent", "one bit has no neighbours that flip; give 'bits', too");
  if (!shape.flips() && shape.bits != 1)
    refuse("bits", fmt::format("the effect {} sets whole numbers; leave the key out", name_of(shape.effect)));
  const bool random = (shape.bits != 1 && !shape.adjacent) || shape.scattered;
  if (random && shape.elements > most_flips / shape.bits) {
    refuse("elements",
           fmt::format("a fault flips at most {} bits that are random; ask for fewer elements or bits",
                       most_flips));
  }
  return shape;
}

void add_shape(Json& value, const ComputePattern& shape) {
  if (!shape.flips()) value["effect"] = shape.effect;
  if (shape.elements != 1) value["elements"] = shape.elements;
  if (shape.stride != 1) value["stride"] = shape.stride;
  if (shape.scattered) value["stride"] = anywhere;
  if (shape.bits != 1) value["bits"] = shape.bits;
  if (shape.adjacent) value["adjacent"] = true;
}

// One pattern for each field, or for the effect.
ComputePatterns of_fields(const Document& document, const std::string& pointer, const Json& value) {
  const ComputePattern shape = shape_from(document, pointer, {});
  if (shape.flips() != value.contains("fields")) {
    fail(ErrorCode::bad_input, "{}: {}", document.where(pointer),
         shape.flips()
             ? "give 'fields', whose bits flip, or another 'effect', or a mixture by 'library' or "
               "'patterns'"
             : fmt::format("'fields' are bits that flip, and the effect {} sets whole numbers; leave "
                           "one of the two out",
                           name_of(shape.effect)));
  }
  const auto fields = value.value("fields", std::vector<std::string>{});
  check_fields(document, pointer + "/fields", fields);
  ComputePatterns patterns;
  for (const std::string& field : fields) {
    patterns.list.push_back(shape);
    patterns.list.back().name = patterns.list.back().field = field;
  }
  if (!shape.flips()) {
    patterns.list.push_back(shape);
    patterns.list.back().name = name_of(shape.effect);
  }
  return patterns;
}

ComputePattern weighted_from(const Document& document, const std::string& pointer,
                             const ComputePattern& start) {
  const Json& value = document.value.at(Json::json_pointer(pointer));
  ComputePattern pattern = shape_from(document, pointer, start);
  pattern.name = value.at("name").get<std::string>();
  pattern.weight = value.at("weight").get<std::uint64_t>();
  if (!value.contains("field")) return pattern;
  pattern.field = value["field"].get<std::string>();
  if (!pattern.flips()) {
    fail(ErrorCode::bad_input, "{}: the effect {} sets whole numbers; leave the key out",
         document.where(pointer + "/field"), name_of(pattern.effect));
  }
  try {
    check_bit_field(pattern.field);
  } catch (const Error& error) {
    fail(ErrorCode::bad_input, "{}: {}", document.where(pointer + "/field"), error.what());
  }
  return pattern;
}

ComputePatterns mixture_from(const Document& document, const std::string& pointer, const Json& value) {
  for (const char* key : {"fields", "effect", "bits", "adjacent"}) {
    if (value.contains(key)) {
      fail(ErrorCode::bad_input,
           "{}: a mixture names the bits and effects of each of its patterns; leave the key out",
           document.where(pointer + "/" + key));
    }
  }
  const ComputePattern start = shape_from(document, pointer, {});
  if (value.contains("library")) {
    for (const char* key : {"patterns", "source"}) {
      if (value.contains(key)) {
        fail(ErrorCode::bad_input, "{}: a library has its own; leave one of the two out",
             document.where(pointer + "/" + key));
      }
    }
    ComputePatterns patterns = patterns_of(parse_named<FaultLibrary>(value["library"].get<std::string>()));
    for (ComputePattern& pattern : patterns.list) {
      pattern.elements = start.elements;
      pattern.stride = start.stride;
      pattern.scattered = start.scattered;
    }
    return patterns;
  }
  ComputePatterns patterns;
  std::set<std::string> names;
  for (std::size_t i = 0; i < value.at("patterns").size(); ++i) {
    const std::string at = fmt::format("{}/patterns/{}", pointer, i);
    patterns.list.push_back(weighted_from(document, at, start));
    if (!names.insert(patterns.list.back().name).second)
      fail(ErrorCode::bad_input, "{}: an earlier pattern has this name; give another",
           document.where(at + "/name"));
  }
  patterns.source = value.value("source", "");
  return patterns;
}

// " and 3 other random bits", besides the drawn one.
std::string other_bits(const ComputePattern& shape) {
  if (shape.bits == 1) return "";
  if (shape.bits == 2) return shape.adjacent ? " and a neighbouring bit" : " and another random bit";
  return fmt::format(" and {} {} bits", shape.bits - 1, shape.adjacent ? "neighbouring" : "other random");
}

const char* what_becomes(ComputeEffect effect) {
  constexpr std::array words = {"another", "0", "NaN", "infinite"};
  return words[static_cast<std::size_t>(effect)];
}

// "zero 50.7 % (8 elements, 4 apart)" for each pattern of a mixture.
std::vector<std::string> shares_of(const std::vector<ComputePattern>& mixture) {
  double all = 0;
  for (const ComputePattern& pattern : mixture) all += static_cast<double>(pattern.weight);
  std::vector<std::string> words;
  for (const ComputePattern& pattern : mixture) {
    std::string word =
        fmt::format("{} {:.3g} %", pattern.name, 100 * static_cast<double>(pattern.weight) / all);
    if (pattern.scattered) word += fmt::format(" ({} elements anywhere)", pattern.elements);
    if (!pattern.scattered && pattern.elements != 1)
      word += fmt::format(" ({} elements, {} apart)", pattern.elements, pattern.stride);
    words.push_back(word);
  }
  return words;
}

}  // namespace

std::uint64_t ComputePatterns::unit() const noexcept {
  std::uint64_t unit = 0;
  for (const ComputePattern& pattern : list) unit = std::gcd(unit, pattern.weight);
  return unit;
}

std::string ComputePatterns::one_fault(const std::optional<std::uint64_t>& size) const {
  if (weighted()) {
    return fmt::format(
        "an error in a number while it is computed, chosen uniformly from all numbers, with a pattern "
        "drawn by its weight ({}),",
        fmt::join(shares_of(list), ", "));
  }
  const ComputePattern& shape = list.front();
  if (!shape.flips()) {
    return fmt::format("a number that becomes {} while it is computed, chosen uniformly from all {}numbers",
                       what_becomes(shape.effect), size_text(size));
  }
  std::vector<std::string> fields;
  for (const ComputePattern& pattern : list) fields.push_back(pattern.field);
  return fmt::format(
      "a flip of one bit{} of a number while it is computed, chosen uniformly from the {}{} of all numbers",
      other_bits(shape), size_text(size), bits_text(fields));
}

std::string ComputePatterns::also_struck() const {
  if (weighted()) return "";
  const ComputePattern& shape = list.front();
  if (shape.elements == 1) return "";
  const std::string bits = shape.bits == 1 ? ""
                           : shape.adjacent
                               ? ", in each of which the same bits flip"
                               : fmt::format(", in each of which {} random bits flip", shape.bits);
  if (shape.scattered)
    return fmt::format(", and in {} more elements anywhere in the tensor{}", shape.elements - 1, bits);
  return fmt::format(", and in the {} elements from there, {} apart{}", shape.elements, shape.stride, bits);
}

ComputePatterns patterns_of(FaultLibrary library) {
  ComputePatterns patterns;
  switch (library) {
    case FaultLibrary::gpu_gates:
      // 50.68 % of the corrupted values are nullified, 48.31 % have other bits flipped, and 1.01 % are NaN or
      // infinite; fewer than 40 % of the flips are in one bit. Assumed: 40 %, four bits in the other flips,
      // and as many infinities as NaNs. The weights add up to 20,000.
      patterns.source =
          "gate-level simulations of a GPU (arXiv 2605.04213), with assumptions: 40 % of flips in one "
          "bit, the others in four, and as many infinities as NaNs";
      patterns.list = {{.name = "zero", .weight = 10136, .effect = ComputeEffect::zero},
                       {.name = "one-bit", .weight = 3865},
                       {.name = "four-bits", .weight = 5797, .bits = 4},
                       {.name = "nan", .weight = 101, .effect = ComputeEffect::nan},
                       {.name = "inf", .weight = 101, .effect = ComputeEffect::inf}};
      break;
  }
  return patterns;
}

ComputePatterns patterns_from(const Document& document, const std::string& pointer) {
  const Json& value = document.value.at(Json::json_pointer(pointer));
  if (value.contains("library") || value.contains("patterns")) return mixture_from(document, pointer, value);
  if (value.contains("source")) {
    fail(ErrorCode::bad_input, "{}: names the source of 'patterns'; leave the key out",
         document.where(pointer + "/source"));
  }
  return of_fields(document, pointer, value);
}

void add_patterns(Json& value, const ComputePatterns& patterns) {
  if (!patterns.weighted()) {
    add_shape(value, patterns.list.front());
    for (const ComputePattern& pattern : patterns.list) {
      if (pattern.flips()) value["fields"].push_back(pattern.field);
    }
    return;
  }
  for (const ComputePattern& pattern : patterns.list) {
    Json one = {{"name", pattern.name}, {"weight", pattern.weight}};
    if (pattern.field != "any") one["field"] = pattern.field;
    add_shape(one, pattern);
    value["patterns"].push_back(one);
  }
  if (!patterns.source.empty()) value["source"] = patterns.source;
}

}  // namespace bitrift::design
