// Options whose values are the names of an enum.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/named_enum.h"

namespace bitrift::cli {

/// The names of an enum.
template <NamedEnum E>
std::vector<std::string> words_of() {
  const auto words = names_of(E{}).words;
  return {words.begin(), words.end()};
}

/// Refuses everything but them.
template <NamedEnum E>
CLI::IsMember one_of() {
  return CLI::IsMember(words_of<E>());
}

/// Refuses nothing, and is not shown in the help: words that a shell completes an option's value with, where
/// the option takes others too or refuses them with a message of its own.
inline CLI::Validator suggest(const std::vector<std::string>& words) {
  return {[](std::string&) { return std::string(); }, "", "suggest " + CLI::detail::join(words, " ")};
}

/// The words of suggest(); none without it.
inline std::vector<std::string> suggested_words(const CLI::Option& option) {
  try {
    for (int i = 0;; ++i) {
      const std::string name = const_cast<CLI::Option&>(option).get_validator(i)->get_name();
      if (name.starts_with("suggest ")) return CLI::detail::split(name.substr(8), ' ');
    }
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

}  // namespace bitrift::cli
