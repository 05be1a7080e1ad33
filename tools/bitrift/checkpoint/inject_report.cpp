#include "checkpoint/inject_report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <fmt/ranges.h>

#include "inject/manifest/manifest_text.h"
#include "output.h"

namespace bitrift::cli {
namespace {

constexpr std::size_t kMostShown = 20;

/// Eligible bits by role: of each field, and of places that lie in several.
record::Json describe_population(const inject::Census& census, bool whole) {
  record::Json list = record::Json::array();
  for (const inject::StratumSize& role : census.roles) {
    record::Json bits = record::Json::object();
    if (!whole) bits = {{"sign", 0}, {"exponent", 0}, {"mantissa", 0}};
    for (const inject::StratumSize& stratum : census.strata) {
      if (stratum.role == role.role) bits[stratum.field] = stratum.bits;
    }
    list.push_back({{"role", role.role},
                    {"tensors", role.tensors},
                    {"elements", role.elements},
                    {"bits", std::move(bits)}});
  }
  return list;
}

std::string population_table(const record::Json& rows, bool whole_elements) {
  std::vector<std::string> fields;
  for (const record::Json& row : rows) {
    for (const auto& [field, bits] : row["bits"].items()) {
      if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.push_back(field);
    }
  }
  // By the place in the number, from the top; what lies in several fields comes last.
  const auto rank = [](const std::string& field) {
    return field == "sign" ? 0 : field == "exponent" ? 1 : field == "mantissa" ? 2 : 3;
  };
  std::sort(fields.begin(), fields.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(rank(a), a) < std::pair(rank(b), b);
  });
  std::vector<std::string> head = {"role", "tensors", "elements"};
  for (const std::string& field : fields) {
    if (!whole_elements) head.push_back(field + " bits");
  }
  Table table(head);
  for (const record::Json& row : rows) {
    std::vector<std::string> cells = {row["role"], with_commas(row["tensors"]), with_commas(row["elements"])};
    for (const std::string& field : fields) {
      if (!whole_elements) cells.push_back(with_commas(row["bits"].value(field, std::uint64_t{0})));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

/// "30", "23,30", "0-31".
std::string bits_text(std::vector<unsigned> bits) {
  std::sort(bits.begin(), bits.end());
  if (bits.size() > 2 && bits.back() - bits.front() + 1 == bits.size()) {
    return fmt::format("{}-{}", bits.front(), bits.back());
  }
  return fmt::format("{}", fmt::join(bits, ","));
}

std::string fault_table(const record::FaultList& list, const std::vector<std::string>& files) {
  std::vector<std::string> head = {"tensor", "element", "dtype", "bits", "MSB-first",
                                   "field",  "old",     "new",   "value"};
  if (!files.empty()) head.emplace_back("file");
  Table table(head);
  for (std::size_t i = 0; i < list.changes.size() && i < kMostShown; ++i) {
    const record::AppliedFault fault = list.at(i);
    const record::Json row = inject::describe_fault(fault);
    std::vector<std::string> cells = {
        record::names_byte(fault.plane, fault.structure) ? fault.structure : fault.tensor,
        std::to_string(fault.element),
        fault.dtype,
        bits_text(fault.bits),
        bits_text(row["msb_first_bits"]),
        fault.field,
        row["old"],
        row["new"],
        row["old_value"].get<std::string>() + " -> " + row["new_value"].get<std::string>()};
    if (!files.empty()) cells.push_back(files[i]);
    table.add(std::move(cells));
  }
  std::string text = list.changes.empty() ? "" : table.text();
  if (list.changes.size() > kMostShown) {
    text += fmt::format("... and {} more (all of them with --json or --manifest)\n",
                        with_commas(list.changes.size() - kMostShown));
  }
  return text;
}

/// How many finite numbers of a list became NaN or infinite.
std::uint64_t made_nonfinite(const record::FaultList& list) {
  std::uint64_t count = 0;
  std::vector<NumberFormat> formats;
  for (const record::FaultSite& site : list.sites) formats.push_back(number_format(site.dtype).value());
  for (const record::ElementChange& change : list.changes) {
    const NumberFormat& format = formats.at(change.site);
    count += is_finite(format, change.old_pattern) && !is_finite(format, change.new_pattern) ? 1U : 0U;
  }
  return count;
}

std::string alias_lines(const InjectReport& report) {
  std::string text;
  for (const auto& [alias, primary] : report.aliases)
    text += fmt::format("{} is an alias of {}: both are altered\n", alias, primary);
  return text;
}

std::uint64_t bits_of(const ckpt::TensorInfo& tensor) { return 8 * tensor.elements() * tensor.element_bytes; }

std::string left_out_lines(const InjectReport& report) {
  constexpr std::size_t most = 5;
  std::uint64_t bits = 0;
  for (const ckpt::TensorInfo& tensor : report.left_out) bits += bits_of(tensor);
  if (report.left_out.empty()) return "";
  std::string text = fmt::format("not targets, because they cannot be altered: {} with {}\n",
                                 counted(report.left_out.size(), "tensor"), counted(bits, "bit"));
  for (std::size_t i = 0; i < std::min(most, report.left_out.size()); ++i)
    text += fmt::format("  {}: {}\n", report.left_out[i].path, report.left_out[i].refusal);
  if (report.left_out.size() > most)
    text += fmt::format("  ... and {} more (see bitrift ls)\n", report.left_out.size() - most);
  return text;
}

record::Json left_out_json(const InjectReport& report) {
  record::Json list = record::Json::array();
  for (const ckpt::TensorInfo& tensor : report.left_out)
    list.push_back({{"tensor", tensor.path}, {"bits", bits_of(tensor)}, {"reason", tensor.refusal}});
  return list;
}

std::string summary_line(const InjectReport& report, const inject::Manifest& manifest) {
  const inject::Plan& plan = manifest.plan;
  std::uint64_t elements = 0;
  std::uint64_t bits = 0;
  for (const record::ElementChange& change : plan.list.changes) {
    const auto changed = static_cast<std::uint64_t>(std::popcount(change.old_pattern ^ change.new_pattern));
    elements += changed > 0 ? 1 : 0;
    bits += changed;
  }
  std::string text = fmt::format("{}, {} changed", counted(elements, "element"), counted(bits, "bit"));
  if (elements < plan.list.changes.size()) {
    text += fmt::format(" ({} already held the new value)", with_commas(plan.list.changes.size() - elements));
  }
  const std::uint64_t nonfinite = made_nonfinite(plan.list);
  if (nonfinite > 0) text += fmt::format("; {} became NaN or infinite", counted(nonfinite, "element"));
  text += fmt::format("; {} targeted in {}; seed {}", counted(plan.census.bits, "bit"),
                      counted(plan.census.elements, "element"), manifest.model.seed);
  if (plan.redrawn > 0) text += fmt::format("; {} drawn again", counted(plan.redrawn, "sample"));
  if (report.dry_run) return text + "; dry run, nothing was written\n";
  if (report.in_place) return text + fmt::format("; undo with: bitrift undo {}\n", report.written);
  return text + fmt::format("; written to {}\n", report.written);
}

std::string upset_table(const std::vector<inject::UpsetShare>& upsets) {
  if (upsets.empty()) return "";
  Table table({"upsets of a", "in 1,000 days", "corrected", "detected", "escape"});
  inject::UpsetShare sum;
  const auto add = [&](const std::string& name, const inject::UpsetShare& one) {
    const double all = one.corrected + one.detected + one.escaped;
    const auto share = [&](double rate) {
      const double percent = 100 * rate / all;
      return percent > 0 && percent < 1e-6 ? "< 1e-6 %" : fmt::format("{:.3g} %", percent);
    };
    table.add(
        {name, fmt::format("{:.3g}", all), share(one.corrected), share(one.detected), share(one.escaped)});
  };
  for (const inject::UpsetShare& one : upsets) {
    add(name_of(one.mode), one);
    sum.corrected += one.corrected;
    sum.detected += one.detected;
    sum.escaped += one.escaped;
  }
  if (upsets.size() > 1) add("any of these", sum);
  return table.text() +
         fmt::format(
             "simulated, with the failure rates of Sridharan and Liberty (SC 2012); {:.3g} upsets of "
             "this memory escape in 1,000 days\n\n",
             sum.escaped);
}

record::Json upsets_json(const std::vector<inject::UpsetShare>& upsets) {
  record::Json modes = record::Json::array();
  for (const inject::UpsetShare& one : upsets) {
    modes.push_back({{"mode", name_of(one.mode)},
                     {"corrected", one.corrected},
                     {"detected", one.detected},
                     {"escaped", one.escaped}});
  }
  return {{"days", 1000}, {"modes", std::move(modes)}};
}

}  // namespace

std::map<std::string, std::string> altered_aliases(const ckpt::Reader& reader,
                                                   const inject::Manifest& manifest) {
  std::map<std::string, std::string> aliases;
  for (const record::FaultSite& site : manifest.plan.list.sites) {
    const ckpt::TensorInfo* const tensor = reader.find(site.tensor);
    if (tensor != nullptr && !tensor->alias_of.empty()) aliases[site.tensor] = tensor->alias_of;
  }
  return aliases;
}

std::vector<std::string> altered_files(const ckpt::Reader& reader, const inject::Manifest& manifest) {
  std::vector<std::string> names;
  const FileList& files = reader.files();
  if (!files.several()) return names;
  for (const record::ElementChange& change : manifest.plan.list.changes) {
    const record::FaultSite& site = manifest.plan.list.sites[change.site];
    std::uint64_t place = change.element;
    if (!record::names_byte(site.plane, site.structure)) {
      const ckpt::TensorInfo& tensor = *reader.find(site.tensor);
      place = reader.values(tensor).locate(tensor.byte_of(change.element)).at;
    }
    names.push_back(files.parts[files.part_of(place)].name);
  }
  return names;
}

void report_injection(const InjectReport& report, const inject::Manifest& manifest) {
  const bool whole = inject::Alteration(manifest.model).whole();
  record::Json population = record::Json::array();
  if (report.dry_run && !report.replayed) population = describe_population(manifest.plan.census, whole);
  if (!report.json) {
    const std::string head = population.empty() ? "" : population_table(population, whole) + "\n";
    print(head + upset_table(manifest.plan.upsets) + fault_table(manifest.plan.list, report.files) +
          alias_lines(report) + left_out_lines(report) + summary_line(report, manifest));
    return;
  }
  record::Json value = inject::to_json(manifest);
  value["schema"] = "bitrift/injection/2";
  value["dry_run"] = report.dry_run;
  if (!population.empty()) value["population"] = std::move(population);
  for (std::size_t i = 0; i < report.files.size(); ++i) value["faults"][i]["file"] = report.files[i];
  if (!report.aliases.empty()) value["aliases"] = report.aliases;
  if (!manifest.plan.upsets.empty()) value["upsets"] = upsets_json(manifest.plan.upsets);
  if (!report.left_out.empty()) value["left_out"] = left_out_json(report);
  if (!report.dry_run) value["output"] = report.written;
  print_json(value);
}

}  // namespace bitrift::cli
