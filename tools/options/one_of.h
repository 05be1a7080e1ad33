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

}  // namespace bitrift::cli
