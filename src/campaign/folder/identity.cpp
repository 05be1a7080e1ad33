#include "campaign/folder/identity.h"

#include "campaign/folder/numeric_environment.h"
#include "core/error.h"
#include "record/provenance.h"

namespace bitrift::campaign {

using record::Json;

Json new_identity(const design::CampaignSpec& spec, const Drills& drills,
                  const std::vector<std::string>& command, int shards) {
  Json identity = {{"schema", record::schema_version},
                   {"seed", spec.seed},
                   {"spec", to_json(spec)},
                   {"drills", campaign::to_json(drills)},
                   {"environment", numeric_environment()},
                   {"provenance", record::provenance(command)}};
  if (shards > 0) identity["shards"] = shards;
  return identity;
}

Json read_identity(const std::filesystem::path& path) {
  Json identity = record::parse_file(path).value;
  try {
    record::check_schema(identity);
  } catch (const Error& error) {
    fail(ErrorCode::bad_file, "{}: {}", path.string(), error.what());
  }
  return identity;
}

std::vector<design::CampaignSpec> earlier_specs(const Json& identity) {
  std::vector<design::CampaignSpec> specs;
  for (const Json& one : identity.value("extensions", Json::array()))
    specs.push_back(design::campaign_spec_from_json(one.at("before")));
  return specs;
}

void add_extension(Json& identity, const design::CampaignSpec& spec,
                   const std::vector<std::string>& command) {
  identity["extensions"].push_back({{"before", identity.at("spec")},
                                    {"environment", numeric_environment()},
                                    {"provenance", record::provenance(command)}});
  identity["spec"] = to_json(spec);
}

std::string change_text(const JsonDifference& difference) {
  return fmt::format("{} was {}, is now {}", difference.key, difference.first, difference.second);
}

}  // namespace bitrift::campaign
