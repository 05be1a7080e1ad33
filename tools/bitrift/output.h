// What the subcommands print, and how.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "record/json/json.h"

namespace bitrift::cli {

/// Remembers the command line of this process, for provenance and messages.
void set_command_line(int count, const char* const* arguments);
[[nodiscard]] const std::vector<std::string>& command_line();

/// A text table: columns as wide as their widest cell, two spaces apart; columns whose every cell below the
/// head is a number are aligned to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Rows of a table that are shown where a file or --json has all.
constexpr std::size_t most_shown = 20;

/// Writes to stdout. Throws Error(io) when it cannot be written (a full disk behind a redirection).
void print(std::string_view text);
/// Writes a document with an indentation of two to stdout.
void print_json(const record::Json& value);

/// Names in other programs' files may hold anything: control characters and invalid UTF-8 become \\xNN.
[[nodiscard]] std::string printable(std::string_view text);

/// "1,234,567".
[[nodiscard]] std::string with_commas(std::uint64_t number);
/// "1 tensor", "2 tensors".
[[nodiscard]] std::string counted(std::uint64_t number, const char* noun);

}  // namespace bitrift::cli
