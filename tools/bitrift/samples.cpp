#include "samples.h"

#include "analyze/verdict/trust.h"
#include "campaign/folder/folder.h"
#include "core/error.h"
#include "report.h"

namespace bitrift::cli {

std::optional<analyze::Sample> read_campaign_sample(const std::filesystem::path& folder) {
  const auto campaign = read_trusted(folder);
  if (!campaign) return std::nullopt;
  const auto& [layout, stored, rows, trust] = *campaign;
  return analyze::sample_of(rows, stored.spec, trust, campaign::read_rounds(layout), stored.base_digests);
}

std::optional<analyze::Sample> read_baseline(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return read_campaign_sample(path);
  if (!std::filesystem::exists(path)) {
    fail(ErrorCode::not_found,
         "{}: there is no baseline yet; write it with: bitrift gate DIR --baseline {} --update",
         path.string(), path.string());
  }
  const record::Json document = record::parse_file(path).value;
  const std::string schema = document.is_object() ? document.value("schema", record::Json()).dump() : "";
  if (schema.starts_with("\"bitrift/summary/")) {
    const auto folder = path.parent_path();
    if (std::filesystem::exists(campaign::Layout{folder}.identity())) return read_campaign_sample(folder);
    fail(ErrorCode::bad_file,
         "{}: a summary alone does not say which fault had which outcome; give the campaign's folder, or "
         "write a baseline file: bitrift gate DIR --baseline FILE --update",
         path.string());
  }
  try {
    return analyze::sample_from_json(document);
  } catch (const Error& error) {
    fail(ErrorCode::bad_file, "{}: {}", path.string(), error.what());
  }
}

}  // namespace bitrift::cli
