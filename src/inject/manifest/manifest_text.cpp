#include "inject/manifest/manifest_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/digest.h"
#include "core/error.h"
#include "inject/manifest/manifest.h"

// Manifests as documents: the properties that faults have from their stratum, and the text of a million
// faults.

namespace bitrift::inject {
namespace {

using record::Json;

/// What the faults of one site and one set of fields have in common.
struct Shared {
  StratumSize stratum;
  std::string field;  ///< AppliedFault::field
};

/// The strata of faults, each looked up once.
///
/// Several flips of one element are one fault: its stratum then names all of their fields, its bits are those
/// of these strata together, its elements those of the largest.
class Strata {
 public:
  explicit Strata(const Manifest& manifest) : manifest_(manifest) {
    const bool metadata = manifest.model.plane == record::Plane::metadata;
    whole_ = !metadata && Alteration(manifest.model).whole();
    std::map<std::tuple<std::string, std::string, bool>, std::size_t> alike;
    for (const record::FaultSite& site : manifest.plan.list.sites) {
      const bool byte = record::names_byte(site.plane, site.structure);
      const auto [at_known, fresh] = alike.try_emplace({site.role, site.dtype, byte}, sites_.size());
      known_of_.push_back(at_known->second);
      if (!fresh) continue;
      Known known;
      known.format = number_format(site.dtype).value();
      for (unsigned bit = 0; bit < known.format.bits(); ++bit) {
        const std::string field = field_of_bit(known.format, bit);
        const std::size_t at = field == "sign" ? 0 : field == "exponent" ? 1 : 2;
        known.fields.at(at) |= std::uint64_t{1} << bit;
      }
      sites_.push_back(std::move(known));
    }
  }

  const Shared& of(const record::ElementChange& change) {
    Known& known = sites_[known_of_.at(change.site)];
    std::size_t set = 0;
    for (std::size_t i = 0; i < known.fields.size(); ++i)
      set |= (known.fields[i] & change.bits) != 0 ? 1U << i : 0U;
    auto& slot = known.shared.at(set);
    if (!slot) slot = find(manifest_.plan.list.sites.at(change.site), known.format, change.bits);
    return *slot;
  }
  [[nodiscard]] const NumberFormat& format(const record::ElementChange& change) const {
    return sites_[known_of_.at(change.site)].format;
  }

 private:
  struct Known {
    NumberFormat format;
    std::array<std::uint64_t, 3> fields{};  // bits of sign, exponent, mantissa
    std::array<std::optional<Shared>, 8> shared;
  };

  [[nodiscard]] Shared find(const record::FaultSite& site, const NumberFormat& format,
                            std::uint64_t bits) const {
    const Census& census = manifest_.plan.census;
    if (site.plane == record::Plane::metadata)
      return {{site.role, "any", 0, census.elements, census.bits}, ""};
    const bool byte = record::names_byte(site.plane, site.structure);
    const std::string names = byte ? "any" : field_names(format, bits);
    Shared shared{{site.role, whole_ ? manifest_.model.bits : names, 0, 0, 0},
                  byte ? "" : record::common_field(format, bits)};
    const auto add = [&](std::string_view field) {
      for (const StratumSize& one : census.strata) {
        if (one.role != site.role || one.field != field) continue;
        shared.stratum.tensors = std::max(shared.stratum.tensors, one.tensors);
        shared.stratum.elements = std::max(shared.stratum.elements, one.elements);
        shared.stratum.bits += one.bits;
      }
    };
    add(shared.stratum.field);
    if (shared.stratum.bits > 0) return shared;
    for (const char* const field : {"sign", "exponent", "mantissa"}) {
      if (names.find(field) != std::string::npos) add(field);
    }
    return shared;
  }

  const Manifest& manifest_;
  bool whole_ = false;
  std::vector<Known> sites_;  // one for all with the same role and format
  std::vector<std::size_t> known_of_;
};

Json stratum_rows(const Census& census) {
  Json rows = Json::array();
  for (const StratumSize& one : census.strata) {
    rows.push_back({{"stratum", one.name()},
                    {"role", one.role},
                    {"field", one.field},
                    {"tensors", one.tensors},
                    {"elements", one.elements},
                    {"bits", one.bits}});
  }
  return rows;
}

/// For a list of faults, the tensors that have some; for a compact one, all that it was drawn from.
Json tensor_rows(const Manifest& manifest) {
  std::set<std::string, std::less<>> altered;
  if (!manifest.compact) {
    for (const record::ElementChange& change : manifest.plan.list.changes) {
      altered.insert(manifest.plan.list.sites.at(change.site).tensor);
    }
  }
  Json rows = Json::array();
  for (const TargetedTensor& one : manifest.plan.tensors) {
    // Stored bytes belong to all parts of a dataset.
    const std::string_view dataset = std::string_view(one.path).substr(0, one.path.rfind(':'));
    if (!manifest.compact && !altered.contains(one.path) && !altered.contains(dataset)) continue;
    rows.push_back({{"path", one.path}, {"dtype", one.dtype}, {"shape", one.shape}});
  }
  return rows;
}

Json without_faults(const Manifest& manifest) {
  Json base = {{"path", manifest.base_path}};
  if (!manifest.base_digest.empty()) base["digest"] = manifest.base_digest;
  if (manifest.base_bytes > 0) base["bytes"] = manifest.base_bytes;
  Json value = {{"schema", "bitrift/fault-manifest/3"},
                {"provenance", manifest.provenance},
                {"base", std::move(base)},
                {"model", record::to_json(manifest.model)},
                {"eligible_bits", manifest.plan.census.bits},
                {"eligible_elements", manifest.plan.census.elements},
                {"redrawn", manifest.plan.redrawn},
                {"no_change", unchanged(manifest.plan.list)}};
  if (!manifest.plan.census.strata.empty()) value["strata"] = stratum_rows(manifest.plan.census);
  if (Json rows = tensor_rows(manifest); !rows.empty()) value["tensors"] = std::move(rows);
  if (!manifest.compact) return value;
  const record::FaultList& list = manifest.plan.list;
  value["drawn"] = {{"faults", list.changes.size()}, {"digest", faults_digest(list)}};
  return value;
}

void append_bits(std::string& out, std::uint64_t bits, bool from_the_top, unsigned width) {
  const char* separator = "";
  while (bits != 0) {
    const auto low = static_cast<unsigned>(std::countr_zero(bits));
    const auto high = 63U - static_cast<unsigned>(std::countl_zero(bits));
    const unsigned bit = from_the_top ? high : low;
    fmt::format_to(std::back_inserter(out), "{}{}", separator, from_the_top ? width - 1 - bit : bit);
    bits &= ~(std::uint64_t{1} << bit);
    separator = ",";
  }
}

/// One line a fault, with the keys in the order of Json, which sorts them.
void append_faults(std::string& out, const Manifest& manifest) {
  const record::FaultList& list = manifest.plan.list;
  Strata strata(manifest);
  std::vector<std::string> tensors;  // quoted, as JSON
  for (const record::FaultSite& site : list.sites) tensors.push_back(Json(site.tensor).dump());
  const std::string measure = Json(manifest.model.measure).dump();
  std::string structure;
  for (std::size_t i = 0; i < list.changes.size(); ++i) {
    const record::ElementChange& change = list.changes[i];
    const record::FaultSite& site = list.sites.at(change.site);
    const NumberFormat& format = strata.format(change);
    const Shared& shared = strata.of(change);
    const unsigned digits = format.bytes * 2;
    const auto put = std::back_inserter(out);
    out += i == 0 ? "\n    {\"bits\": [" : ",\n    {\"bits\": [";
    append_bits(out, change.bits, false, format.bits());
    fmt::format_to(
        put,
        "], \"dtype\": \"{}\", \"element\": {}, \"field\": \"{}\", \"measure\": {}, \"msb_first_bits\": [",
        site.dtype, change.element, shared.field, measure);
    append_bits(out, change.bits, true, format.bits());
    fmt::format_to(
        put,
        "], \"new\": \"0x{:0{}x}\", \"new_value\": \"{}\", \"old\": \"0x{:0{}x}\", \"old_value\": \"{}\"",
        change.new_pattern, digits, value_text(site.dtype, change.new_pattern), change.old_pattern, digits,
        value_text(site.dtype, change.old_pattern));
    if (site.plane != record::Plane::value) fmt::format_to(put, ", \"plane\": \"{}\"", name_of(site.plane));
    structure = site.structure.empty() ? "" : ", \"structure\": " + Json(site.structure).dump();
    fmt::format_to(
        put,
        ", \"role\": \"{}\", \"stratum\": \"{}\", \"stratum_bits\": {}, \"stratum_elements\": {}{}, "
        "\"tensor\": {}}}",
        site.role, shared.stratum.name(), shared.stratum.bits, shared.stratum.elements, structure,
        tensors[change.site]);
  }
}

}  // namespace

std::string faults_digest(const record::FaultList& list) {
  Digest digest;
  std::string text;
  for (const record::ElementChange& change : list.changes) {
    fmt::format_to(std::back_inserter(text), "{}\t{:x}\t{:x}\t{:x}\t{:x}\n",
                   list.sites.at(change.site).tensor, change.element, change.bits, change.old_pattern,
                   change.new_pattern);
    if (text.size() < (std::size_t{1} << 20)) continue;
    digest.add(text);
    text.clear();
  }
  return digest.add(text).hex();
}

Json to_json(const Manifest& manifest) {
  Json value = without_faults(manifest);
  if (manifest.compact) return value;
  Json faults = Json::array();
  Strata strata(manifest);
  for (std::size_t i = 0; i < manifest.plan.list.changes.size(); ++i) {
    Json fault = describe_fault(manifest.plan.list.at(i));
    const StratumSize& stratum = strata.of(manifest.plan.list.changes[i]).stratum;
    fault["stratum"] = stratum.name();
    fault["stratum_bits"] = stratum.bits;
    fault["stratum_elements"] = stratum.elements;
    fault["measure"] = manifest.model.measure;
    faults.push_back(std::move(fault));
  }
  value["faults"] = std::move(faults);
  return value;
}

namespace {

bool is_utf8(const std::string& text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::type_error&) {
    return false;
  }
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  try {
    std::string text = without_faults(manifest).dump(2);
    if (manifest.compact) return text + "\n";
    text.resize(text.size() - 2);  // "\n}"
    text.reserve(text.size() + 420 * manifest.plan.list.changes.size());
    text += ",\n  \"faults\": [";
    append_faults(text, manifest);
    text += "\n  ]\n}\n";
    return text;
  } catch (const Json::type_error&) {
    const auto refuse = [](const char* what, const char* cure) {
      fail(ErrorCode::unsupported, "{} is not UTF-8, so no manifest can hold it; {}leave out --manifest",
           what, cure);
    };
    if (!is_utf8(manifest.base_path)) refuse("the file's name", "rename the file, or ");
    for (const record::FaultSite& site : manifest.plan.list.sites) {
      if (!is_utf8(site.tensor)) refuse("a tensor's name", "");
    }
    refuse("a word of the command line", "rename what it names, or ");
    throw;
  }
}

}  // namespace bitrift::inject
