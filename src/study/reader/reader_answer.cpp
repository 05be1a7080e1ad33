#include "study/reader/reader_answer.h"

#include <algorithm>
#include <vector>

namespace bitrift::study {
namespace {

using Digests = std::map<std::string, std::string>;

// "3 tensors differ: a, b, ..."
void add_list(std::string& text, const std::vector<std::string>& names, const char* what) {
  constexpr std::size_t most = 2;
  if (names.empty()) return;
  const std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
  text += fmt::format("{}{} {}: {}{}", text.empty() ? "" : "; ", names.size(), what, fmt::join(shown, ", "),
                      names.size() > most ? ", ..." : "");
}

// A name in a damaged file can hold any bytes.
std::string printable(const std::string& name) {
  constexpr std::size_t most = 60;
  std::string text = name.substr(0, most);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Judged judge_contents(const Digests& found, const Digests& expected) {
  std::vector<std::string> differing, missing, added;
  for (const auto& [name, digest] : expected) {
    const auto other = found.find(name);
    if (other == found.end()) {
      missing.push_back(name);
    } else if (other->second != digest) {
      differing.push_back(name);
    }
  }
  for (const auto& [name, ignored] : found) {
    if (!expected.contains(name)) added.push_back(printable(name));
  }
  std::string text;
  add_list(text, differing, "differ");
  add_list(text, missing, "missing");
  add_list(text, added, "unknown");
  return {text.empty() ? DamageOutcome::same : DamageOutcome::silently_wrong, text, missing.size()};
}

}  // namespace

Judged judge(const ReaderAnswer& answer, const Digests& expected) {
  if (const auto* refused = std::get_if<ReaderRefused>(&answer))
    return {DamageOutcome::detected, refused->message};
  if (const auto* contents = std::get_if<ReaderContents>(&answer))
    return judge_contents(contents->digests, expected);
  if (const auto* died = std::get_if<ReaderDied>(&answer)) return {DamageOutcome::crash, died->status.text()};
  return {DamageOutcome::hang, ""};
}

}  // namespace bitrift::study
