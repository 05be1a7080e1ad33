// JSON as bitrift reads and writes it: with line numbers for errors, and non-finite numbers as strings.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/named_enum.h"

/// An enum with names is its name in JSON; the inverse throws Error(bad_file) for other texts.
template <bitrift::NamedEnum E>
struct nlohmann::adl_serializer<E> {
  static void to_json(json& value, E name) { value = bitrift::name_of(name); }
  static void from_json(const json& value, E& name) {
    name = bitrift::parse_named<E>(value.template get<std::string>());
  }
};

namespace bitrift::record {

using Json = nlohmann::json;

/// Whether a JSON form includes what differs between two equal runs: durations, under "volatile".
enum class Times { with, without };

/// A parsed document that remembers the line of each value.
struct Document {
  Json value;
  std::string source;  ///< file name for messages
  std::map<std::string, std::string>
      places;  ///< JSON pointer ("/arms/0/name") to "spec.json:12" or "--set seed"

  /// The place where the value at a JSON pointer, or its nearest known ancestor, was written: "spec.json:12".
  [[nodiscard]] std::string place(const std::string& pointer) const;
  /// Place and key, with which a message about the value begins: "spec.json:12: arms[0].name".
  [[nodiscard]] std::string where(const std::string& pointer) const;
};

/// Objects of one array that are passed on one by one, in order, so that memory never holds a million of
/// them. The document's value does not contain them, and place() knows no lines inside them.
struct Elements {
  std::string key;  ///< of the array, in the outermost object
  std::function<void(Json)> take;
};

/// Parses a file or a text. Refuses duplicate keys. Throws Error(not_found | bad_file) with file and line,
/// and what `elements` throws.
[[nodiscard]] Document parse_file(const std::filesystem::path& path, const Elements* elements = nullptr);
[[nodiscard]] Document parse_text(std::string_view text, const std::string& source,
                                  const Elements* elements = nullptr);

/// "arms[0].name" for "/arms/0/name": how keys are named in messages.
[[nodiscard]] std::string key_name(const std::string& pointer);

/// A double as JSON: the number, or "NaN", "Infinity", "-Infinity".
[[nodiscard]] Json number_to_json(double value);
/// The inverse. Throws Error(bad_file) for anything else.
[[nodiscard]] double number_from_json(const Json& value);

/// C99 hexadecimal float ("0x1.8p+1"), exact; "nan", "inf", "-inf" as in Python's float.fromhex.
[[nodiscard]] std::string hex_float(double value);

}  // namespace bitrift::record
