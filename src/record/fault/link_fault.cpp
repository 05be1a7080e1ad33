#include "record/fault/link_fault.h"

#include <array>
#include <charconv>
#include <limits>

#include "core/error.h"
#include "record/fault/fault.h"

namespace bitrift::record {
namespace {

constexpr std::int64_t most_bits = 64;

}  // namespace

LinkFault link_fault_from_text(std::string_view text) {
  struct Part {
    const char* what;
    char behind;  // the character that ends it
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
    if (end == std::string_view::npos) refuse(fmt::format("no '{}' after the {}", part.behind, part.what));
    const std::string_view digits = rest.substr(0, end);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), numbers[i]);
    const bool read = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
    if (!read || numbers[i] < part.least || numbers[i] > part.most)
      refuse(fmt::format("'{}' is not a valid {} (they begin at {})", digits, part.what, part.least));
    rest.remove_prefix(part.behind == '\0' ? end : end + 1);
  }
  return {numbers[1], numbers[2], numbers[0], numbers[3], static_cast<int>(numbers[4])};
}

std::string to_text(const LinkFault& fault) {
  return fmt::format("{}@{}:{}.{}.{}", fault.send, fault.step, fault.bucket, fault.element, fault.bit);
}

namespace {

constexpr std::tuple altered_keys = {
    Key{"link", &AlteredMessage::fault}, Key{"from", &AlteredMessage::from},
    Key{"to", &AlteredMessage::to},      Key{"chunk", &AlteredMessage::chunk},
    Key{"kind", &AlteredMessage::kind},  Key{"dtype", &AlteredMessage::dtype}};

}  // namespace

void to_json(Json& value, const AlteredMessage& altered) {
  value = {{"old", pattern_to_json(altered.old_pattern, altered.dtype)},
           {"new", pattern_to_json(altered.new_pattern, altered.dtype)}};
  put_keys(value, altered, altered_keys);
}

void from_json(const Json& value, AlteredMessage& altered) {
  take_keys(value, altered, altered_keys);
  altered.old_pattern = pattern_from_json(value.at("old"));
  altered.new_pattern = pattern_from_json(value.at("new"));
}

}  // namespace bitrift::record
