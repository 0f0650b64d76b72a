#include "classifier/media.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace classifier {
namespace media_test {

std::string data(std::size_t length, unsigned seed = 1) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::mt19937 chance{seed};
  std::string text;
  while (text.size() < length) text += kAlphabet[chance() % kAlphabet.size()];
  return text;
}

std::string prose(std::size_t length) {
  std::string text;
  for (unsigned i = 0; text.size() < length; ++i)
    text += "The " + std::to_string(i) + "th word\\nis (not) the last. ";
  return text.substr(0, length);
}

std::string wrapped(std::string_view text, std::string_view end) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 76) out.append(text.substr(at, 76)).append(end);
  return out;
}

std::string slashes_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '/' ? std::string{"\\/"} : std::string{c};
  return out;
}

struct Case {
  std::string name;
  std::string body;
  Media want;
};

TEST(Media, is_found_wherever_a_dialect_has_it) {
  const std::string image = data(20'000);
  const std::string escaped = slashes_escaped(image);
  const std::string lines = wrapped(image, "\\r\\n");
  const Case cases[] = {
      {"OpenAI's image_url", R"({"image_url":{"url":"data:image/png;base64,)" + image + R"("}})", {20'000, 1}},
      {"OpenAI's input_audio", R"({"input_audio":{"data":")" + image + R"(","format":"wav"}})", {20'000, 1}},
      {"OpenAI's file_data", R"({"file":{"file_data":"data:application/pdf;base64,)" + image + R"("}})", {20'000, 1}},
      {"Anthropic's source", R"({"source":{"type":"base64","data":")" + image + R"("}})", {20'000, 1}},
      {"Gemini's inlineData", R"({"inlineData":{"mimeType":"image/png","data":")" + image + R"("}})", {20'000, 1}},
      {"Bedrock's bytes", R"({"source":{"bytes":")" + image + R"("}})", {20'000, 1}},
      {"slashes escaped", R"({"data":")" + escaped + R"("})", {escaped.size(), 1}},
      {"lines broken", R"({"data":")" + lines + R"("})", {lines.size(), 1}},
      {"the other alphabet", R"({"data":")" + data(9'000) + "-_" + data(9'000) + R"(=="})", {18'004, 1}},
      {"to the end of a body that was cut", R"({"data":")" + image, {20'000, 1}},
      {"among text",
       R"({"text":")" + prose(9'000) + R"(","data":")" + image + R"(","text":")" + prose(9'000) + "\"}",
       {20'000, 1}},
      {"prose alone", R"({"text":")" + prose(100'000) + R"("})", {}},
      {"a small body", R"({"data":")" + data(8'000) + R"("})", {}},
      {"a small icon in a long text", R"({"text":")" + prose(9'000) + R"(","data":")" + data(1'000) + R"("})", {}},
      {"a row of one letter", R"({"text":")" + std::string(50'000, 'a') + R"("})", {}},
      {"a row of dashes", R"({"text":")" + std::string(50'000, '-') + R"("})", {}},
      {"nothing", "", {}},
      {"white space", std::string(50'000, ' '), {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Media media = media_in(c.body);
    EXPECT_EQ(media.bytes, c.want.bytes);
    EXPECT_EQ(media.pieces, c.want.pieces);
  }
}

TEST(Media, escaped_text_in_another_script_is_none) {
  std::string text;
  for (unsigned i = 0; i < 10'000; ++i) text += "\\u4f6" + std::to_string(i % 10);
  EXPECT_EQ(media_in("{\"text\":\"" + text + "\"}"), Media{});
}

// Goal: where they begin, how long they are and what lies between them does not matter. Method: seeded bodies whose
// pieces are known.
TEST(Media, pieces_are_counted_to_the_byte) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 chance{seed};
    const std::string_view kBetween[] = {
        R"("},{"data":")", R"("}},{"image_url":{"url":"data:image/png;base64,)", "\",\""};
    std::string body = R"({"text":")" + prose(8'192 + chance() % 3'000);
    Media want;
    for (unsigned i = 0; i < chance() % 8; ++i) {
      body += kBetween[chance() % 3];
      const std::size_t length = chance() % 2 == 0 ? 1'024 + chance() % 5'000 : chance() % 1'023;
      body += data(length, seed + i);
      if (length < 1'024) continue;
      want.bytes += length;
      ++want.pieces;
    }
    body += R"("})";
    EXPECT_EQ(media_in(body), want);
  }
}

}  // namespace media_test
}  // namespace classifier
