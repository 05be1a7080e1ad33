#include "design/kind/sentences.h"

#include <fmt/ranges.h>

#include "core/error.h"

namespace bitrift::design {
namespace {

// 1,620
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t end = text.size(); end > 3;) text.insert(end -= 3, ",");
  return text;
}

}  // namespace

std::string in_words(const std::vector<std::string>& words, const char* last) {
  if (words.empty()) fail(ErrorCode::internal, "an empty list in a sentence");
  if (words.size() == 1) return words.front();
  return fmt::format("{} {} {}", fmt::join(words.begin(), words.end() - 1, ", "), last, words.back());
}

std::string size_text(const std::optional<std::uint64_t>& size) { return size ? grouped(*size) + " " : ""; }

std::string bits_text(const std::vector<std::string>& fields) {
  std::vector<std::string> names;
  bool plain = true;
  for (const std::string& field : fields) {
    const bool named = field == "sign" || field == "exponent" || field == "mantissa";
    plain = plain && (named || field == "exponent_msb");
    names.push_back(field == "exponent_msb" ? "highest exponent" : field);
  }
  if (plain) return in_words(names) + " bits";
  return fields == std::vector<std::string>{"any"} ? "bits"
                                                   : fmt::format("bits in the fields {}", in_words(fields));
}

std::string rate_of_uniform(const char* one, const char* what) {
  return fmt::format(
      "Each rate is that of a {} drawn uniformly from all {} of its line, so that strata count by how many "
      "they hold. In general, it is not the fraction of trials.",
      one, what);
}

}  // namespace bitrift::design
