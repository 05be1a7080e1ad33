#include "inject/manifest/manifest.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "ckpt/set/checkpoint_files.h"
#include "core/error.h"
#include "record/json/schema.h"

namespace bitrift::inject {
namespace {

using record::Json;

constexpr const char* other_bits = "old and new pattern do not differ in the bits it names";

std::uint64_t named_bits(const record::AppliedFault& fault) {
  std::uint64_t mask = 0;
  for (const unsigned bit : fault.bits) mask |= std::uint64_t{1} << bit;
  return mask;
}

/// Checks what a schema cannot express: bits and patterns fit the width.
void check_fault(const record::AppliedFault& fault, const std::string& place) {
  const auto format = number_format(fault.dtype);
  if (!format) fail(ErrorCode::bad_file, "{}: '{}' is not a number format", place, fault.dtype);
  if (record::names_byte(fault.plane, fault.structure) && fault.dtype != "uint8") {
    fail(ErrorCode::bad_file, "{}: a byte of the file is uint8, not {}", place, fault.dtype);
  }
  for (const unsigned bit : fault.bits) {
    if (bit >= format->bits()) fail(ErrorCode::bad_file, "{}: {} has no bit {}", place, fault.dtype, bit);
  }
  if (((fault.old_pattern | fault.new_pattern) & ~format->mask()) != 0) {
    fail(ErrorCode::bad_file, "{}: a pattern is wider than {}", place, fault.dtype);
  }
  if (((fault.old_pattern ^ fault.new_pattern) & ~named_bits(fault)) != 0) {
    fail(ErrorCode::bad_file, "{}: {}", place, other_bits);
  }
}

std::vector<StratumSize> strata_from_json(const Json& rows) {
  std::vector<StratumSize> strata;
  for (const Json& row : rows) {
    strata.push_back({row.at("role").get<std::string>(), row.at("field").get<std::string>(),
                      row.at("tensors").get<std::uint64_t>(), row.at("elements").get<std::uint64_t>(),
                      row.at("bits").get<std::uint64_t>()});
  }
  return strata;
}

}  // namespace

std::string value_text(const std::string& dtype, std::uint64_t pattern) {
  const auto format = number_format(dtype);
  if (!format) return fmt::format("{:#x}", pattern);
  if (format->kind == NumberKind::unsigned_integer) return std::to_string(pattern);
  if (format->kind == NumberKind::signed_integer) {
    const unsigned unused = 64 - format->bits();
    return std::to_string(static_cast<std::int64_t>(pattern << unused) >> unused);
  }
  const double value = decode_number(*format, pattern);
  if (std::isnan(value)) return "nan";
  return format->bytes == 8 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

Json describe_fault(const record::AppliedFault& fault) {
  Json value = record::to_json(fault);
  const auto format = number_format(fault.dtype);
  std::vector<unsigned> msb_first;
  std::transform(fault.bits.rbegin(), fault.bits.rend(), std::back_inserter(msb_first),
                 [&](unsigned bit) { return format->bits() - 1 - bit; });
  value["msb_first_bits"] = msb_first;
  value["old_value"] = value_text(fault.dtype, fault.old_pattern);
  value["new_value"] = value_text(fault.dtype, fault.new_pattern);
  return value;
}

record::FaultModel fault_model_from(const record::Document& document, const std::string& pointer) {
  const Json& value = document.value.at(Json::json_pointer(pointer));
  if (value.contains("seed") && !value.at("seed").is_number_unsigned()) {
    fail(ErrorCode::bad_input, "{}: seed: expected a whole number from 0 to 2^64 - 1, found {}",
         document.place(pointer + "/seed"), value.at("seed").dump());
  }
  return record::fault_model_from_json(value);
}

void set_base(Manifest& manifest, const std::filesystem::path& file) {
  manifest.base_path = file.string();
  manifest.base_digest = ckpt::digest_of(file);
  manifest.base_bytes = ckpt::bytes_of(file);
}

namespace {

/// Takes the faults of a manifest one by one. The model, which follows them in the file, comes last.
class FaultSink {
 public:
  /// Throws Error(bad_file) that begins with `place`.
  void add(const Json& entry, const std::string& place) {
    record::AppliedFault fault;
    try {
      fault = record::applied_fault_from_json(entry);
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", place, error.what());
    }
    check_fault(fault, place);
    if ((fault.old_pattern ^ fault.new_pattern) != named_bits(fault) && !less_) less_ = place;
    list_.append(fault);
  }
  [[nodiscard]] record::FaultList finish(const record::FaultModel& model) {
    const bool flip = model.what == record::FaultKind::flip || model.what == record::FaultKind::burst ||
                      model.what == record::FaultKind::mask;
    if (flip && less_) fail(ErrorCode::bad_file, "{}: {}", *less_, other_bits);
    for (record::FaultSite& site : list_.sites) site.plane = model.plane;
    return std::move(list_);
  }

 private:
  record::FaultList list_;
  std::optional<std::string> less_;
};

Manifest manifest_from(const record::Document& document, FaultSink& faults) {
  const Json& value = document.value;
  Manifest manifest;
  manifest.base_path = value.at("base").at("path").get<std::string>();
  manifest.base_digest = value.at("base").at("digest").get<std::string>();
  manifest.base_bytes = value.at("base").value("bytes", std::uint64_t{0});
  manifest.model = fault_model_from(document, "/model");
  manifest.provenance = value.at("provenance");
  value.at("eligible_bits").get_to(manifest.plan.census.bits);
  value.at("eligible_elements").get_to(manifest.plan.census.elements);
  value.at("redrawn").get_to(manifest.plan.redrawn);
  if (value.contains("strata")) manifest.plan.census.strata = strata_from_json(value["strata"]);
  if (value.contains("tensors")) {
    for (const Json& row : value["tensors"]) {
      manifest.plan.tensors.push_back({row.at("path").get<std::string>(), row.at("dtype").get<std::string>(),
                                       row.at("shape").get<std::vector<std::uint64_t>>()});
    }
  }
  manifest.compact = value.contains("drawn");
  if (manifest.compact == value.contains("faults")) {
    fail(ErrorCode::bad_file, "{}: expected either 'faults' or 'drawn'", document.place(""));
  }
  if (manifest.compact) {
    value["drawn"].at("faults").get_to(manifest.fault_count);
    value["drawn"].at("digest").get_to(manifest.fault_digest);
    return manifest;
  }
  std::size_t number = 0;
  for (const Json& entry : value.at("faults")) {
    faults.add(entry, document.place(fmt::format("/faults/{}", number++)));
  }
  manifest.plan.list = faults.finish(manifest.model);
  return manifest;
}

Manifest manifest_of(const record::Document& document) {
  record::check_schema(document, record::shipped_schema("fault-manifest"));
  FaultSink faults;
  return manifest_from(document, faults);
}

/// Reads without holding a document of all faults in memory. Its errors do not name a line.
Manifest read_in_pieces(const std::filesystem::path& path) {
  constexpr std::size_t piece = 4096;
  const Json& schema = record::shipped_schema("fault-manifest");
  const Json& schema_of_faults = schema.at("properties").at("faults");
  FaultSink faults;
  record::Document some;
  some.value = Json::array();
  const auto flush = [&] {
    record::check_schema(some, schema_of_faults);
    for (const Json& entry : some.value) faults.add(entry, "");
    some.value = Json::array();
  };
  const record::Elements elements{"faults", [&](Json entry) {
                                    some.value.push_back(std::move(entry));
                                    if (some.value.size() == piece) flush();
                                  }};
  const record::Document document = record::parse_file(path, &elements);
  flush();
  record::check_schema(document, schema);
  return manifest_from(document, faults);
}

}  // namespace

Manifest read_manifest(const std::filesystem::path& path) {
  try {
    return read_in_pieces(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found || error.code() == ErrorCode::io) throw;
  }
  return manifest_of(record::parse_file(path));
}

Manifest manifest_of_text(const std::string& text, const std::string& source) {
  return manifest_of(record::parse_text(text, source));
}

}  // namespace bitrift::inject
