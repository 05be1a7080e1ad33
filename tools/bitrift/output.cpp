#include "output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "core/error.h"

namespace bitrift::cli {
namespace {

std::vector<std::string>& stored_command_line() {
  static std::vector<std::string> stored;
  return stored;
}

bool is_number(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789,.%-+e") == std::string::npos;
}

/// Length of the UTF-8 character at the start of a text; 0 when there is none (RFC 3629; overlong forms and
/// surrogates are let through, since they do no harm on a terminal).
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xC2 && first < 0xE0 ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) {
      result += fmt::format("\\x{:02x}", first);
      text.remove_prefix(1);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

void set_command_line(int count, const char* const* arguments) {
  stored_command_line().assign(arguments, arguments + count);
}

const std::vector<std::string>& command_line() { return stored_command_line(); }

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> width(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    for (std::size_t column = 0; column < columns; ++column) {
      width[column] = std::max(width[column], rows_[i][column].size());
      if (i > 0 && !is_number(rows_[i][column])) right[column] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::string_view gap = column == 0 ? "" : "  ";
      line += right[column] ? fmt::format("{}{:>{}}", gap, row[column], width[column])
                            : fmt::format("{}{:<{}}", gap, row[column], width[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  fail(ErrorCode::io, "cannot write to standard output: {}", errno_text(errno));
}

void print_json(const record::Json& value) {
  // Names in other programs' files need not be UTF-8: invalid bytes are replaced.
  print(value.dump(2, ' ', false, record::Json::error_handler_t::replace) + "\n");
}

std::string with_commas(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string counted(std::uint64_t number, const char* noun) {
  return fmt::format("{} {}{}", with_commas(number), noun, number == 1 ? "" : "s");
}

}  // namespace bitrift::cli
