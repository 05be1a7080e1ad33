#include "record/fault/compute_fault.h"

#include <array>
#include <charconv>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/number/number_format.h"
#include "record/fault/fault.h"
#include "record/json/keys.h"

namespace bitrift::record {
namespace {

constexpr const char* permanent = "permanent";
constexpr std::int64_t highest_bit = 63;
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

constexpr std::tuple compute_keys = {Key{"site", &ComputeFault::site},
                                     Key{"tensor", &ComputeFault::tensor},
                                     Key{"step", &ComputeFault::step},
                                     Key{"replica", &ComputeFault::replica},
                                     Key{"micro_batch", &ComputeFault::micro_batch},
                                     Key{"element", &ComputeFault::element},
                                     Key{"bit", &ComputeFault::bit},
                                     Key{"effect", &ComputeFault::effect, Presence::unless_default},
                                     Key{"every", &ComputeFault::every, Presence::unless_default},
                                     Key{"elements", &ComputeFault::elements, Presence::unless_default},
                                     Key{"stride", &ComputeFault::stride, Presence::unless_default}};

bool possible(const ComputeFault& fault) {
  return !fault.tensor.empty() && fault.step >= 1 && fault.replica >= 0 && fault.micro_batch >= 0 &&
         fault.element >= 0 && fault.bit >= 0 && fault.bit <= highest_bit && fault.lasting >= 0 &&
         fault.every >= 1 && fault.elements >= 1 && fault.stride >= 1 &&
         (fault.effect == ComputeEffect::flip || fault.bit == 0) &&
         (of_layers(fault.site) || fault.micro_batch == 0) &&
         (fault.site != ComputeSite::parameter || fault.lasting == 1);
}

// Reads a text from left to right.
class Parts {
 public:
  explicit Parts(std::string_view text) : text_(text), rest_(text) {}

  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorCode::bad_input,
         "'{}': {}; expected SITE:TENSOR@STEP:REPLICA.MICRO_BATCH.ELEMENT.BIT[+LASTING[/EVERY]]"
         "[*ELEMENTS[/STRIDE]], such as activation:conv1@5:0.0.17.30",
         text_, why);
  }
  // The text up to the first of these characters, or to the end.
  std::string_view until(std::string_view ends) {
    const std::string_view part = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(part.size());
    return part;
  }
  // Takes the next character if it is this one.
  bool skip(char next) {
    if (!rest_.starts_with(next)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Takes the next part if it is this word.
  bool skip_word(std::string_view word) {
    if (rest_.substr(0, rest_.find_first_of("+/*")) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void demand(char next, const char* after) {
    if (!skip(next)) refuse(fmt::format("no '{}' after the {}", next, after));
  }
  std::int64_t number(const char* what, std::int64_t least, std::int64_t most = no_limit) {
    const std::string_view digits = until(".:+*/");
    std::int64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool read = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
    if (!read || value < least || value > most)
      refuse(fmt::format("'{}' is not a valid {} (the least is {})", digits, what, least));
    return value;
  }
  // A tensor's name may hold any of the characters that end other parts.
  std::string_view tensor() {
    const std::size_t end = rest_.rfind('@');
    if (end == std::string_view::npos) refuse("no '@' after the tensor");
    const std::string_view name = rest_.substr(0, end);
    if (name.empty()) refuse("no tensor is named");
    rest_.remove_prefix(end + 1);
    return name;
  }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

 private:
  std::string_view text_, rest_;
};

}  // namespace

bool ComputeFault::strikes(std::int64_t in_step) const noexcept {
  if (in_step < step || (in_step - step) % every != 0) return false;
  return lasting == 0 || (in_step - step) / every < lasting;
}

std::int64_t ComputeFault::most_elements(std::int64_t count) const noexcept {
  return count / std::gcd(count, stride);
}

std::optional<std::int64_t> ComputeFault::last_step() const noexcept {
  if (lasting == 0 || (lasting > 1 && every > (no_limit - step) / (lasting - 1))) return std::nullopt;
  return step + (lasting - 1) * every;
}

Json to_json(const ComputeFault& fault) {
  Json value = Json::object();
  put_keys(value, fault, compute_keys);
  if (fault.lasting == 0) value["lasting"] = permanent;
  if (fault.lasting > 1) value["lasting"] = fault.lasting;
  return value;
}

ComputeFault compute_fault_from_json(const Json& value) {
  try {
    ComputeFault fault;
    take_keys(value, fault, compute_keys);
    if (value.contains("lasting"))
      fault.lasting = value["lasting"] == permanent ? 0 : value["lasting"].get<std::int64_t>();
    if (possible(fault)) return fault;
  } catch (const Json::exception&) {
  }
  fail(ErrorCode::bad_file,
       "a fault while computing: expected 'site', 'tensor', 'step' (from 1), 'replica', 'micro_batch', "
       "'element' and 'bit'; found {:.200}",
       value.dump());
}

ComputeFault compute_fault_from_text(std::string_view text) {
  Parts parts(text);
  ComputeFault fault;
  const std::string site(parts.until(":"));
  const auto known = find_named<ComputeSite>(site);
  if (!known) parts.refuse(fmt::format("'{}' is not a site ({})", site, list_names<ComputeSite>()));
  fault.site = *known;
  parts.demand(':', "site");
  fault.tensor = parts.tensor();
  fault.step = parts.number("step", 1);
  parts.demand(':', "step");
  fault.replica = parts.number("replica", 0);
  parts.demand('.', "replica");
  fault.micro_batch = parts.number("micro-batch", 0);
  parts.demand('.', "micro-batch");
  fault.element = parts.number("element", 0);
  parts.demand('.', "element");
  for (const ComputeEffect effect : {ComputeEffect::zero, ComputeEffect::nan, ComputeEffect::inf}) {
    if (parts.skip_word(name_of(effect))) fault.effect = effect;
  }
  if (fault.effect == ComputeEffect::flip) fault.bit = static_cast<int>(parts.number("bit", 0, highest_bit));
  if (parts.skip('+')) {
    fault.lasting = parts.skip_word(permanent) ? 0 : parts.number("number of times", 1);
    if (parts.skip('/')) fault.every = parts.number("distance of steps", 1);
  }
  if (parts.skip('*')) {
    fault.elements = parts.number("number of elements", 1);
    if (parts.skip('/')) fault.stride = parts.number("stride", 1);
  }
  if (!parts.rest().empty()) parts.refuse(fmt::format("'{}' follows the bit", parts.rest()));
  if (!of_layers(fault.site) && fault.micro_batch != 0)
    parts.refuse(fmt::format("a step has one {} for all micro-batches: name micro-batch 0", site));
  if (fault.site == ComputeSite::parameter && fault.lasting != 1)
    parts.refuse("a parameter keeps its flipped bit, and a second time would flip it back: it strikes once");
  return fault;
}

std::string to_text(const ComputeFault& fault) {
  const bool flips = fault.effect == ComputeEffect::flip;
  std::string text = fmt::format("{}:{}@{}:{}.{}.{}.{}", name_of(fault.site), fault.tensor, fault.step,
                                 fault.replica, fault.micro_batch, fault.element,
                                 flips ? std::to_string(fault.bit) : name_of(fault.effect));
  if (fault.lasting != 1 || fault.every != 1)
    text += fault.lasting == 0 ? fmt::format("+{}", permanent) : fmt::format("+{}", fault.lasting);
  if (fault.every != 1) text += fmt::format("/{}", fault.every);
  if (fault.elements != 1 || fault.stride != 1) text += fmt::format("*{}", fault.elements);
  if (fault.stride != 1) text += fmt::format("/{}", fault.stride);
  return text;
}

std::uint64_t pattern_after(const ComputeFault& fault, const std::string& dtype, std::uint64_t old) {
  switch (fault.effect) {
    case ComputeEffect::flip:
      return old ^ std::uint64_t{1} << static_cast<unsigned>(fault.bit);
    case ComputeEffect::zero:
      return 0;
    case ComputeEffect::nan:
      return nan_pattern(number_format(dtype).value());
    case ComputeEffect::inf:
      return infinity_pattern(number_format(dtype).value());
  }
  fail(ErrorCode::internal, "an effect without a pattern");
}

void to_json(Json& value, const AlteredValue& altered) {
  value = {{"compute", to_json(altered.fault)},
           {"dtype", altered.dtype},
           {"old", pattern_to_json(altered.old_pattern, altered.dtype)},
           {"new", pattern_to_json(altered.new_pattern, altered.dtype)},
           {"times", altered.times}};
}

void from_json(const Json& value, AlteredValue& altered) {
  altered.fault = compute_fault_from_json(value.at("compute"));
  value.at("dtype").get_to(altered.dtype);
  altered.old_pattern = pattern_from_json(value.at("old"));
  altered.new_pattern = pattern_from_json(value.at("new"));
  value.at("times").get_to(altered.times);
}

}  // namespace bitrift::record
