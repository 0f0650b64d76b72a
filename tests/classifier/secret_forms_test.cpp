// Goal: a key is found in the base64 of whatever was written around it.

#include "classifier/secret_forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "classifier/base64.h"

namespace secret_forms_test {

/// The plain way.
std::string base64(std::string_view text, bool for_urls) {
  const std::string_view letters = for_urls ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                                            : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8U | (at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U);
    for (unsigned i = 0; i < 4; ++i) out += at + i > text.size() ? '=' : letters[group >> (18U - 6U * i) & 0x3FU];
  }
  return out;
}

bool is_found(std::string_view secret, std::string_view text) {
  return std::ranges::any_of(classifier::base64_of_any_with(secret),
                             [&](const std::string& form) { return text.contains(form); });
}

TEST(SecretForms, shows_a_secret_wherever_it_stands) {
  std::mt19937 chance{11};
  const std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~?>";
  for (int i = 0; i < 2'000; ++i) {
    const auto word = [&](std::size_t size) {
      std::string text(size, ' ');
      for (char& c : text) c = letters[chance() % letters.size()];
      return text;
    };
    const std::string secret = "sk-" + word(9 + chance() % 80);
    const std::string around = word(chance() % 7) + secret + word(chance() % 7);
    for (const bool for_urls : {false, true}) {
      SCOPED_TRACE(around);
      const std::string written = base64(around, for_urls);
      EXPECT_EQ(classifier::from_base64(written), around);
      EXPECT_TRUE(is_found(secret, written)) << written;
      EXPECT_FALSE(is_found("sk-" + word(40), written)) << "another one is not there";
    }
  }
}

TEST(SecretForms, of_what_is_short_has_no_forms_and_of_others_few) {
  EXPECT_TRUE(classifier::base64_of_any_with("").empty());
  EXPECT_TRUE(classifier::base64_of_any_with("elevenbytes").empty());
  const auto forms = classifier::base64_of_any_with("twelve bytes");
  EXPECT_LE(forms.size(), 6U);
  for (const std::string& form : forms) EXPECT_GE(form.size(), 15U) << form;
  EXPECT_EQ(classifier::base64_of_any_with(std::string(100, '\xff')).size(), 6U) << "both alphabets";
}

}  // namespace secret_forms_test
