#include "record/fault/link_fault.h"

#include <array>
#include <charconv>
#include <limits>

#include "core/error.h"
#include "record/fault/fault.h"

namespace bitrift::record {
namespace {

constexpr std::int64_t most_bits = 64;

Json to_json(const ChipPlace& chip) { return {{"row", chip.row}, {"column", chip.column}}; }

ChipPlace chip_from_json(const Json& value) { return {value.at("row"), value.at("column")}; }

}  // namespace

Json to_json(const LinkFault& fault) {
  return {{"step", fault.step},
          {"bucket", fault.bucket},
          {"send", fault.send},
          {"element", fault.element},
          {"bit", fault.bit}};
}

LinkFault link_fault_from_json(const Json& value) {
  return {value.at("step"), value.at("bucket"), value.at("send"), value.at("element"), value.at("bit")};
}

LinkFault link_fault_from_text(std::string_view text) {
  struct Part {
    const char* what;
    char behind;  // the sign that ends it
    std::int64_t least, most;
  };
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  constexpr std::array<Part, 5> parts = {{{"send", '@', 0, any},
                                          {"step", ':', 1, any},
                                          {"bucket", '.', 0, any},
                                          {"element", '.', 0, any},
                                          {"bit", '\0', 0, most_bits - 1}}};
  const auto refuse = [text](const std::string& why) {
    fail(ErrorCode::bad_input, "'{}': {}; expected SEND@STEP:BUCKET.ELEMENT.BIT, such as 12@5:0.3.30", text,
         why);
  };
  std::array<std::int64_t, parts.size()> numbers = {};
  std::string_view rest = text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const auto end = part.behind == '\0' ? rest.size() : rest.find(part.behind);
    if (end == std::string_view::npos) refuse(fmt::format("no '{}' behind the {}", part.behind, part.what));
    const std::string_view digits = rest.substr(0, end);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), numbers[i]);
    const bool read = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
    if (!read || numbers[i] < part.least || numbers[i] > part.most)
      refuse(fmt::format("'{}' is no {} from {}", digits, part.what, part.least));
    rest.remove_prefix(part.behind == '\0' ? end : end + 1);
  }
  return {numbers[1], numbers[2], numbers[0], numbers[3], static_cast<int>(numbers[4])};
}

std::string to_text(const LinkFault& fault) {
  return fmt::format("{}@{}:{}.{}.{}", fault.send, fault.step, fault.bucket, fault.element, fault.bit);
}

Json to_json(const AlteredMessage& altered) {
  return {{"link", to_json(altered.fault)},
          {"from", to_json(altered.from)},
          {"to", to_json(altered.to)},
          {"chunk", altered.chunk},
          {"kind", altered.kind},
          {"dtype", altered.dtype},
          {"old", pattern_to_json(altered.old_pattern, altered.dtype)},
          {"new", pattern_to_json(altered.new_pattern, altered.dtype)}};
}

AlteredMessage altered_message_from_json(const Json& value) {
  return {link_fault_from_json(value.at("link")), chip_from_json(value.at("from")),
          chip_from_json(value.at("to")),         value.at("chunk"),
          value.at("kind").get<MessageKind>(),    value.at("dtype"),
          pattern_from_json(value.at("old")),     pattern_from_json(value.at("new"))};
}

}  // namespace bitrift::record
