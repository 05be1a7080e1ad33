#include "spec/base_spec.h"

#include <array>
#include <set>

#include "core/error.h"
#include "record/json/schema.h"
#include "spec/training_parts.h"

namespace bitrift::record {
namespace {

BaseSpec base_from(const Document& document, const std::string& pointer) {
  const Json& value = document.value.at(Json::json_pointer(pointer));
  if (value.contains("train") == value.contains("checkpoint")) {
    fail(ErrorCode::bad_input, "{}: expected exactly one of 'train' and 'checkpoint'",
         document.where(pointer));
  }
  BaseSpec base;
  base.name = value.value("name", "");
  base.min_test_accuracy = value.value("min_test_accuracy", 0.0);
  if (value.contains("train")) {
    check_schema(document, shipped_schema("train"), pointer + "/train");
    base.train = training_spec_from(document, pointer + "/train");
    if (value["train"].contains("checkpoint")) {
      fail(ErrorCode::bad_input, "{}: a campaign trains its base in one go; remove the key",
           base.train->where("checkpoint"));
    }
  } else {
    const std::filesystem::path file = value["checkpoint"].get<std::string>();
    const auto folder = std::filesystem::absolute(document.source).parent_path();
    base.checkpoint = (file.is_absolute() ? file : folder / file).lexically_normal();
  }
  return base;
}

std::string pointer_of_base(const std::vector<BaseSpec>& bases, std::size_t index) {
  return bases.front().name.empty() ? "/base" : "/base/" + std::to_string(index);
}

Json to_json(const BaseSpec& base) {
  Json value = {{"min_test_accuracy", base.min_test_accuracy}};
  if (!base.name.empty()) value["name"] = base.name;
  if (base.train) {
    value["train"] = Json::parse(to_text(*base.train));
    value["train"]["parallel"] = to_json(base.train->parallel);
  }
  if (base.checkpoint) value["checkpoint"] = base.checkpoint->string();
  return value;
}

constexpr std::array<std::string_view, 17> extensions = {
    ".h5",    ".weights.h5", ".hdf5", ".pt",   ".pth",         ".pth.tar", ".tar", ".bin", ".pkl",
    ".model", ".weights",    ".npz",  ".ckpt", ".safetensors", ".keras",   ".zip", ""};

}  // namespace

std::span<const std::string_view> kept_extensions() { return extensions; }

std::string_view kept_extension(const std::filesystem::path& checkpoint) {
  const std::filesystem::path plain = checkpoint.has_filename() ? checkpoint : checkpoint.parent_path();
  const std::string name = plain.filename().string();
  if (name.ends_with(".json")) return "";  // the index of a folder
  std::string_view longest;
  for (const std::string_view one : extensions) {
    if (name.size() > one.size() && name.ends_with(one) && one.size() > longest.size()) longest = one;
  }
  std::error_code none;
  return longest.empty() && !std::filesystem::is_directory(plain, none) ? extensions.front() : longest;
}

std::vector<BaseSpec> bases_from(const Document& document) {
  const Json& value = document.value.at("base");
  if (value.is_object()) return {base_from(document, "/base")};
  std::vector<BaseSpec> bases;
  std::set<std::string> names;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string pointer = "/base/" + std::to_string(i);
    bases.push_back(base_from(document, pointer));
    if (names.insert(bases.back().name).second) continue;
    fail(ErrorCode::bad_input, "{}: a second base is named '{}'; names must differ",
         document.where(pointer + "/name"), bases.back().name);
  }
  return bases;
}

void check_bases_exist(const Document& document, const std::vector<BaseSpec>& bases) {
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const auto& file = bases[i].checkpoint;
    if (!file || std::filesystem::is_regular_file(*file) || std::filesystem::is_directory(*file)) continue;
    const std::string pointer = pointer_of_base(bases, i) + "/checkpoint";
    fail(ErrorCode::not_found, "{}: no file {}; the path is relative to the spec's folder",
         document.where(pointer), file->string());
  }
}

Json to_json(const std::vector<BaseSpec>& bases) {
  if (bases.size() == 1 && bases.front().name.empty()) return to_json(bases.front());
  Json list = Json::array();
  for (const BaseSpec& base : bases) list.push_back(to_json(base));
  return list;
}

}  // namespace bitrift::record
