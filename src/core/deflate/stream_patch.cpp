#include "core/deflate/stream_patch.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "core/deflate/deflate_block.h"
#include "core/deflate/splice.h"
#include "core/error.h"
#include "core/log.h"

namespace bitrift::deflate {
namespace {

using Content = std::span<const std::uint8_t>;

/// The sorted positions of the content that change.
class Edits {
 public:
  Edits(Content before, Content after) {
    constexpr std::size_t word = 64;
    for (std::size_t at = 0; at < after.size(); at += word) {
      const std::size_t count = std::min(word, after.size() - at);
      if (std::memcmp(before.data() + at, after.data() + at, count) == 0) continue;
      for (std::size_t i = at; i < at + count; ++i) {
        if (before[i] != after[i]) places_.push_back(i);
      }
    }
  }
  [[nodiscard]] std::size_t count() const noexcept { return places_.size(); }
  /// The place where the last token can begin that an edit affects.
  [[nodiscard]] std::uint64_t reach() const noexcept { return places_.back() + farthest_match; }

  /// Whether a token must be rewritten. Ask in ascending order of tokens.
  [[nodiscard]] bool affect(const Token& token) noexcept {
    while (next_ < places_.size() && places_[next_] < token.at) ++next_;
    if (next_ < places_.size() && places_[next_] < token.end()) return true;
    if (token.distance == 0 || next_ == 0) return false;
    // The sources of a copy begin at most this far back; sources inside of it are covered above.
    const std::uint64_t source = token.at - token.distance;
    if (places_[next_ - 1] < source) return false;
    const auto first =
        std::lower_bound(places_.begin(), places_.begin() + static_cast<std::ptrdiff_t>(next_), source);
    return *first < source + token.length;
  }
  /// The place up to which literals from `at` on are not affected.
  [[nodiscard]] std::uint64_t next(std::uint64_t at) const noexcept {
    const auto found = std::lower_bound(places_.begin(), places_.end(), at);
    return found == places_.end() ? ~std::uint64_t{0} : *found;
  }
  /// Restarts the questions at any token.
  void rewind(std::uint64_t at) {
    next_ = static_cast<std::size_t>(std::lower_bound(places_.begin(), places_.end(), at) - places_.begin());
  }

 private:
  std::vector<std::uint64_t> places_;
  std::size_t next_ = 0;
};

/// The beginning of a token, in the stream and in the content.
struct Place {
  std::uint64_t bit = 0, at = 0;
};

/// The findings of a first pass over a block.
struct Survey {
  Place end;                          ///< after the block
  std::optional<Place> affected;      ///< the first token that must be rewritten
  std::uint64_t last_affected = 0;    ///< the beginning of the last of them in the content
  std::vector<std::uint8_t> missing;  ///< required literals that have no code
};

/// Literals and copies that produce the bytes of one token.
class Form {
 public:
  void literal(unsigned byte) { parts_.push_back({byte, 0}); }
  void match(unsigned length, unsigned distance) { parts_.push_back({length, distance}); }
  void clear() { parts_.clear(); }

  /// Calls with each literal that the block has no code for.
  template <typename Visit>
  void visit_missing(const Block& block, const Visit& visit) const {
    for (const Part& part : parts_) {
      if (part.distance == 0 && block.literal_bits(part.value) == 0)
        visit(static_cast<std::uint8_t>(part.value));
    }
  }
  /// nullopt if the block lacks a code for a part of it.
  [[nodiscard]] std::optional<unsigned> bits(const Block& block) const {
    unsigned sum = 0;
    for (const Part& part : parts_) {
      const unsigned bits =
          part.distance == 0 ? block.literal_bits(part.value) : block.length_bits(part.value);
      if (bits == 0) return std::nullopt;
      sum += bits + (part.distance == 0 ? 0 : block.distance_bits(part.distance));
    }
    return sum;
  }
  void put(const Block& block, BitWriter& out) const {
    for (const Part& part : parts_) {
      if (part.distance == 0) {
        block.put_literal(part.value, out);
      } else {
        block.put_match(part.value, part.distance, out);
      }
    }
  }

 private:
  struct Part {
    unsigned value = 0, distance = 0;  ///< a literal, or the length of a copy
  };
  std::vector<Part> parts_;
};

class StreamPatcher {
 public:
  /// `early`: tokens from the beginning of a block on may take other forms, not only those after an edit.
  StreamPatcher(Content stream, Content after, Edits edits, bool early)
      : stream_(stream), after_(after), edits_(std::move(edits)), early_(early) {}

  Bytes run() {
    Place place;
    Block block;
    while (place.at <= edits_.reach() || splices_.moved()) {
      block.read(stream_, place.bit);
      place = block.stored() ? pass_stored(block, place.at) : pass_coded(block, place.at);
      if (!block.last()) continue;
      if (place.at != after_.size()) fail(ErrorCode::unsupported, "deflated data ends too early");
      splices_.settle(place.bit, static_cast<unsigned>(-place.bit & 7U));
      break;
    }
    return splices_.apply(stream_);
  }

 private:
  Place pass_stored(const Block& block, std::uint64_t at) {
    const std::uint64_t bytes = block.stored_bytes();
    if (bytes > after_.size() - at || block.first_token() + 8 * bytes > 8 * stream_.size()) {
      fail(ErrorCode::unsupported, "deflated data has more bytes than its content");
    }
    splices_.settle(block.first_bit() + 3, block.padding());
    Token byte;
    byte.length = 1;
    edits_.rewind(at);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      byte.at = at + i;
      if (!edits_.affect(byte)) continue;
      const std::uint64_t new_first = splices_.bits().bits();
      splices_.bits().put(after_[at + i], 8);
      const std::uint64_t first = block.first_token() + 8 * i;
      splices_.force({first, first + 8, new_first, splices_.bits().bits()});
    }
    return {block.first_token() + 8 * bytes, at + bytes};
  }

  Place pass_coded(const Block& block, std::uint64_t at) {
    const Survey survey = look_at(block, at);
    if (!survey.missing.empty()) {
      rewrite_block(block, at, survey);
    } else if (splices_.moved() || (early_ && survey.affected)) {
      if (early_ && survey.affected) splices_.hold();
      edit(block, {block.first_token(), at}, survey);
      splices_.release();
    } else if (survey.affected) {
      edit(block, *survey.affected, survey);
    }
    return survey.end;
  }

  Survey look_at(const Block& block, std::uint64_t at) {
    Survey survey;
    std::bitset<256> missing;
    Form form;
    edits_.rewind(at);
    TokenReader reader(stream_, block, block.first_token(), at);
    std::uint64_t unaffected = std::min<std::uint64_t>(edits_.next(at), after_.size());
    Token token = reader.next();
    for (; token.length > 0; token = reader.next()) {
      if (token.end() > after_.size()) {
        fail(ErrorCode::unsupported, "deflated data has more bytes than its content");
      }
      if (!edits_.affect(token)) {
        reader.skip_literals(unaffected);
        continue;
      }
      unaffected = std::min<std::uint64_t>(edits_.next(token.end()), after_.size());
      if (!survey.affected) survey.affected = Place{token.first_bit, token.at};
      survey.last_affected = token.at;
      rewrite_token(block, token, form);
      form.visit_missing(block, [&](std::uint8_t literal) { missing.set(literal); });
    }
    for (unsigned literal = 0; literal < missing.size(); ++literal) {
      if (missing[literal]) survey.missing.push_back(static_cast<std::uint8_t>(literal));
    }
    survey.end = {token.end_bit, token.at};
    return survey;
  }

  /// The token with its new bytes: as copies where these still equal the bytes at its distance.
  void rewrite_token(const Block& block, const Token& token, Form& form) const {
    form.clear();
    for (std::uint64_t at = token.at; at < token.end();) {
      std::uint64_t end = at;
      while (token.distance > 0 && end < token.end() && after_[end] == after_[end - token.distance]) ++end;
      const auto run = static_cast<unsigned>(end - at);
      if (run >= shortest_match) {
        copy(block, at, run, token.distance, form);
        at = end;
      } else {
        end = std::max(end, at + 1);
        for (; at < end; ++at) form.literal(after_[at]);
      }
    }
  }

  /// A copy of `run` bytes, in lengths for which the block has codes, with literals between them.
  void copy(const Block& block, std::uint64_t at, unsigned run, unsigned distance, Form& form) const {
    while (run > 0) {
      unsigned length = run;
      while (length >= shortest_match && block.length_bits(length) == 0) --length;
      if (length < shortest_match) {
        form.literal(after_[at]);
        length = 1;
      } else {
        form.match(length, distance);
      }
      at += length;
      run -= length;
    }
  }

  Splice splice(const Block& block, const Token& token, const Form& form) {
    const std::uint64_t first = splices_.bits().bits();
    form.put(block, splices_.bits());
    return {token.first_bit, token.end_bit, first, splices_.bits().bits()};
  }

  /// Rewrites tokens from a place on, up to where nothing more must change and the rest can stay in place.
  void edit(const Block& block, Place from, const Survey& survey) {
    edits_.rewind(from.at);
    TokenReader reader(stream_, block, from.bit, from.at);
    Form form;
    for (Token token = reader.next(); token.length > 0; token = reader.next()) {
      const bool all_done = !survey.affected || token.at > survey.last_affected;
      if (all_done) splices_.release();
      if (edits_.affect(token)) {
        rewrite_token(block, token, form);
        splices_.force(splice(block, token, form));
      } else if (token.distance > 0 && splices_.wants_forms()) {
        splices_.offer(forms_of(block, token));
      }
      if (all_done && !splices_.wants_forms()) return;
    }
  }

  /// Forms of a copy in which a few of its bytes, before or after the rest, or all bytes are literals.
  std::vector<Splice> forms_of(const Block& block, const Token& token) {
    constexpr unsigned most_literals = 3, most_of_all = 12;
    std::vector<Splice> forms;
    const auto literals = [&](unsigned first, unsigned end) {
      return after_.subspan(token.at + first, end - first);
    };
    const unsigned kept = block.length_bits(token.length) + block.distance_bits(token.distance);
    const auto add = [&](unsigned before, unsigned after) {
      Form& form = scratch_;
      form.clear();
      const unsigned rest = token.length - before - after;
      for (const std::uint8_t byte : literals(0, before)) form.literal(byte);
      if (rest > 0) form.match(rest, token.distance);
      for (const std::uint8_t byte : literals(token.length - after, token.length)) form.literal(byte);
      const auto bits = form.bits(block);
      if (bits && splices_.wants_form(std::int64_t{*bits} - kept))
        forms.push_back(splice(block, token, form));
    };
    if (token.length <= most_of_all) add(token.length, 0);
    for (unsigned count = 1; count <= most_literals && token.length >= count + shortest_match; ++count) {
      add(count, 0);
      add(0, count);
    }
    return forms;
  }

  /// A block with codes for missing literals: all of its tokens get new bits.
  void rewrite_block(const Block& block, std::uint64_t at, const Survey& survey) {
    std::array<std::uint64_t, HuffmanCode::most_symbols> uses{};
    TokenReader counted(stream_, block, block.first_token(), at);
    while (counted.next().length > 0) ++uses[counted.symbol()];
    ++uses[end_of_block];
    const Block renewed = block.with_literals(survey.missing, uses);

    splices_.hold();
    BitWriter& bits = splices_.bits();
    const std::uint64_t new_first = bits.bits();
    renewed.put_header(bits);
    splices_.force({block.first_bit(), block.first_token(), new_first, bits.bits()});
    edits_.rewind(at);
    TokenReader reader(stream_, block, block.first_token(), at);
    Form form;
    for (Token token = reader.next();; token = reader.next()) {
      const bool affected = edits_.affect(token);
      form.clear();
      if (affected) {
        rewrite_token(block, token, form);  // with `block`, as the survey found it
      } else if (token.distance > 0) {
        form.match(token.length, token.distance);
      } else {
        form.literal(reader.symbol());
      }
      const Splice rewritten = splice(renewed, token, form);
      const bool choice = !affected && token.distance > 0 && splices_.wants_forms();
      splices_.force(rewritten, choice ? forms_of(renewed, token) : std::vector<Splice>());
      if (token.length == 0) break;
    }
    splices_.release();
  }

  Content stream_, after_;
  Edits edits_;
  bool early_;
  SpliceList splices_;
  Form scratch_;
};

}  // namespace

std::optional<Bytes> patch_stream(Content stream, Content before, Content after) {
  if (before.size() != after.size())
    fail(ErrorCode::internal, "contents of different sizes cannot be patched");
  const Edits edits(before, after);
  if (edits.count() == 0) return Bytes(stream.begin(), stream.end());
  if (edits.count() > 16 + after.size() / 256) return std::nullopt;
  try {
    Bytes patched = StreamPatcher(stream, after, edits, false).run();
    if (patched.size() <= stream.size()) return patched;
    Bytes again = StreamPatcher(stream, after, edits, true).run();
    return again.size() < patched.size() ? again : patched;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return std::nullopt;
  }
}

std::optional<Bytes> patch_checked(Content stream, Bytes before, Content after,
                                   const std::function<Bytes(Content)>& inflate) {
  std::optional<Bytes> patched = patch_stream(stream, before, after);
  before = Bytes();
  if (!patched) return std::nullopt;
  try {
    const Bytes again = inflate(*patched);
    if (std::equal(again.begin(), again.end(), after.begin(), after.end())) return patched;
  } catch (const Error& error) {
    spdlog::debug("a patched deflate stream: {}", error.what());
  }
  spdlog::warn("a patched deflate stream does not hold its content, and is packed again; please report this");
  return std::nullopt;
}

}  // namespace bitrift::deflate
