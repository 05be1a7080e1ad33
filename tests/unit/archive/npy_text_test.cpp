#include "archive/npy_text.h"

#include "unit/scratch.h"

namespace bitrift::archive {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(NpyText, CharactersOfEveryLengthComeBack) {
  const std::string text = "a\x7f\xc2\x80é\xdf\xbf\xe0\xa0\x80€\xef\xbf\xbf\xf0\x90\x80\x80😀\xf4\x8f\xbf\xbf";
  const Bytes utf32 = utf32_of(text, "x");
  EXPECT_EQ(utf32.size(), 4U * 11);
  EXPECT_EQ(utf8_of(utf32, false), text);
  EXPECT_EQ(utf32_of("é", "x"), (Bytes{0xe9, 0, 0, 0}));
  EXPECT_EQ(utf8_of(Bytes{0, 1, 0xf6, 0}, true), "😀");
  EXPECT_EQ(utf32_of("", "x"), Bytes());
}

TEST(NpyText, ZerosAtTheEndAreNoCharacters) {
  EXPECT_EQ(utf8_of(Bytes(12), false), "");
  EXPECT_EQ(utf8_of(Bytes{'a', 0, 0, 0, 0, 0, 0, 0, 'b', 0, 0, 0, 0, 0, 0, 0}, false),
            std::string("a\0b", 3));
}

TEST(NpyText, WhatIsNoTextIsNone) {
  for (const char* wrong : {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                            "\xf8\x88\x80\x80\x80", "a\xe2\x82"}) {
    EXPECT_ERROR(static_cast<void>(utf32_of(wrong, "attribute x")), bad_input,
                 "attribute x: its text is not valid UTF-8");
  }
  EXPECT_FALSE(utf8_of(Bytes{0, 0xd8, 0, 0}, false));  // a surrogate
  EXPECT_FALSE(utf8_of(Bytes{0, 0, 0x11, 0}, false));
  EXPECT_FALSE(utf8_of(Bytes{0, 0, 0, 1}, false));
}

}  // namespace
}  // namespace bitrift::archive
