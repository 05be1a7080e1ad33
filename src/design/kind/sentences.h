// What a kind of fault says about itself in a report, and the words that these sentences are made of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace bitrift::design {

struct Sentences {
  /// A fault as the subject of a sentence, with the population from which it is drawn. The key is the name of
  /// a fault model if strata are models, else "". A single model also has the key "".
  std::map<std::string, std::string> faults;
  std::string rates;                ///< the subject of a rate
  std::vector<std::string> limits;  ///< the limits of the rates: what they say nothing about
  std::string no_map;               ///< why rates by layer and bit do not exist; "": they do
  /// Whether a fault changes numbers whose old and new values are in a row.
  bool numbers = true;
};

/// "a, b and c".
[[nodiscard]] std::string in_words(const std::vector<std::string>& words, const char* last = "and");
/// "1,620 ", or "".
[[nodiscard]] std::string size_text(const std::optional<std::uint64_t>& size);
/// "sign and highest exponent bits".
[[nodiscard]] std::string bits_text(const std::vector<std::string>& fields);
/// "Each rate is that of a failure drawn uniformly from all combinations of links and steps of its line,
/// ...".
[[nodiscard]] std::string rate_of_uniform(const char* one, const char* what);

}  // namespace bitrift::design
