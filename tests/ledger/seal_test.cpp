// Goal: what is sealed is read with its key and in its place only; a key's file is read in three forms.

#include "ledger/seal.h"

#include <fstream>

#include "ledger/pack.h"
#include "tests/ledger/store_support.h"

namespace store_test {
namespace seal_test {

using ledger::Seal;

TEST(Seal, opens_what_it_sealed_and_nothing_else) {
  const Seal seal(std::string(32, 'a'));
  for (const std::string& text : {std::string{}, std::string{"words"}, std::string(100'000, '\0')}) {
    const std::string sealed = seal.seal(text, "place");
    EXPECT_EQ(seal.open(sealed, "place"), text);
    EXPECT_FALSE(seal.open(sealed, "elsewhere"));
    EXPECT_FALSE(Seal(std::string(32, 'b')).open(sealed, "place"));
    EXPECT_NE(seal.seal(text, "place"), sealed) << "a nonce of its own each time";
    for (const std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{12}, sealed.size() - 1}) {
      std::string other = sealed;
      other[at] = static_cast<char>(other[at] ^ 1);
      EXPECT_FALSE(seal.open(other, "place")) << at;
    }
    for (const std::size_t size : {std::size_t{0}, std::size_t{20}, sealed.size() - 1}) {
      EXPECT_FALSE(seal.open(sealed.substr(0, size), "place")) << size;
    }
  }
}

TEST(Seal, a_keys_file_is_raw_hex_or_base64) {
  std::string key;
  for (int i = 0; i < 32; ++i) key += static_cast<char>(i * 7 + 200);
  std::string hex;
  for (const char c : key) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    hex += kDigits[static_cast<unsigned char>(c) >> 4U];
    hex += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  struct Case {
    const char* name;
    std::string text;
    bool good;
  };
  const Case cases[] = {
      {"raw", key, true},
      {"hex", hex + "\n", true},
      {"base64", "yM/W3eTr8vkABw4VHCMqMTg/Rk1UW2JpcHd+hYyTmqE=\r\n", true},
      {"base64 of the other alphabet", "yM_W3eTr8vkABw4VHCMqMTg_Rk1UW2JpcHd-hYyTmqE", true},
      {"a passphrase", "correct horse battery staple", false},
      {"too short", hex.substr(2), false},
      {"empty", "", false},
      {"something that is no file of keys", std::string(100'000, 'A'), false},
  };
  for (const Case& c : cases) {
    const auto read = ledger::payload_keys_in(c.text);
    EXPECT_EQ(read.has_value(), c.good) << c.name;
    if (read) {
      EXPECT_EQ(*read, std::vector{key}) << c.name;
    } else if (!c.text.empty()) {
      EXPECT_EQ(read.error().find(c.text.substr(0, 20)), std::string::npos) << "says what it holds";
    }
  }
  // After a rotation: the first one writes.
  const std::string other(32, 'k');
  const auto both = ledger::payload_keys_in("a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=\n\n" + hex + "\n");
  ASSERT_TRUE(both);
  EXPECT_EQ(*both, (std::vector{other, key}));
}

TEST(Pack, an_answer_comes_out_as_it_went_in_and_cut_bytes_are_told) {
  ledger::StoredAnswer answer;
  answer.headers = {{"A", "1"}, {"a", ""}, {"", std::string{"\0\n", 2}}};
  answer.body = std::string(300'000, 'x') + std::string{"\0end", 4};
  const std::string packed = ledger::pack(answer);
  EXPECT_LT(packed.size(), 10'000U);
  const auto unpacked = ledger::unpack(packed);
  ASSERT_TRUE(unpacked);
  EXPECT_EQ(unpacked->headers, answer.headers);
  EXPECT_EQ(unpacked->body, answer.body);
  for (std::size_t size = 0; size < packed.size(); size += 7) {
    EXPECT_FALSE(ledger::unpack(packed.substr(0, size))) << size;
  }
}

TEST(Pack, little_is_not_deflated_and_its_cut_is_told_all_the_same) {
  ledger::StoredAnswer answer;
  answer.headers = {{"A", "1"}};
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1'023}, std::size_t{1'024}}) {
    SCOPED_TRACE(size);
    answer.body = std::string(size, 'x');
    const std::string packed = ledger::pack(answer);
    EXPECT_EQ(packed.size() > size, size < 1'024);
    const auto unpacked = ledger::unpack(packed);
    ASSERT_TRUE(unpacked);
    EXPECT_EQ(unpacked->headers, answer.headers);
    EXPECT_EQ(unpacked->body, answer.body);
    for (std::size_t cut = 0; cut < packed.size(); ++cut) EXPECT_FALSE(ledger::unpack(packed.substr(0, cut))) << cut;
    if (size < 1'024) {
      EXPECT_FALSE(ledger::unpack(packed + "x"));
    }
  }
  ledger::KeptRequest request{.method = "POST", .target = "/x", .headers = answer.headers, .body = "hi"};
  const auto back = ledger::unpack_request(ledger::pack(request));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->target, "/x");
  EXPECT_EQ(back->body, "hi");
}

}  // namespace seal_test
}  // namespace store_test
