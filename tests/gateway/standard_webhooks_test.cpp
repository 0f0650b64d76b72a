#include "gateway/standard_webhooks.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway {
namespace standard_webhooks_test {

// 32 bytes 0, 1, 2, …, and 64 bytes 100, 101, ….
constexpr const char* kSmall = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr const char* kLarge =
    "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoOEhYaHiImKi4yNjo+QkZKTlJWWl5iZmpucnZ6foKGiow==";
constexpr const char* kId = "01890a5d-ac96-774b-bcce-b302099a8057";
constexpr const char* kBody = "{\"type\":\"run.succeeded\",\"data\":{\"id\":\"\u00e9\"}}";

WebhookSecrets secrets(const std::string& text) { return webhook_secrets_of(text).value(); }

TEST(StandardWebhooks, signs_as_the_reference_libraries_do) {
  EXPECT_EQ(webhook_signature(secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
                              "msg_p5jXN8AQM9LWM0D4loKWxJek",
                              1'614'265'330,
                              R"({"test": 2432232314})"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

// Made with: printf '%s' "$id.$time.$body" | openssl dgst -sha256 -mac HMAC -macopt hexkey:… -binary | base64
TEST(StandardWebhooks, signs_as_openssl_does) {
  EXPECT_EQ(webhook_signature(secrets(kSmall), kId, 1'780'000'000, kBody),
            "v1,y3Pxcc1HKdgyXec384xH8nmMO7GcxK6I+kf10xMenAc=");
  EXPECT_EQ(webhook_signature(secrets(kLarge), kId, 1'780'000'000, kBody),
            "v1,NaxZQSpfktzi324fMIhdXpNiv6la2x+UopnrDdLTyFY=");
  EXPECT_EQ(webhook_signature(secrets(kSmall), "m", 0, ""), "v1,UjFbwlC3+25BndkRm6m1Tr6SkklaR1xWGw5XUeb14nQ=");
}

TEST(StandardWebhooks, signs_with_every_secret_while_one_is_exchanged) {
  const WebhookSecrets both = secrets(std::string{kLarge} + "\n" + kSmall + "\n");
  const classifier::Headers headers = {
      {"webhook-id", kId},
      {"webhook-timestamp", "1780000000"},
      {"webhook-signature",
       "v1,NaxZQSpfktzi324fMIhdXpNiv6la2x+UopnrDdLTyFY= v1,y3Pxcc1HKdgyXec384xH8nmMO7GcxK6I+kf10xMenAc="}};
  EXPECT_EQ(webhook_headers(both, kId, 1'780'000'000, kBody), headers);
}

TEST(StandardWebhooks, reads_secrets_one_a_line) {
  EXPECT_EQ(secrets(std::string{"# the new one\r\n"} + kLarge + "\r\n\n  " + kSmall + " ").size(), 2u);
  EXPECT_EQ(secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").front().size(), 24u);
  EXPECT_EQ(secrets(kLarge).front().size(), 64u);
  EXPECT_EQ(secrets("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
  const std::string marker = "SECRETSECRETSECRETSECRETSECRETSECRET";
  struct Case {
    std::string text;
    const char* problem;
  };
  const Case kCases[] = {
      {"", "must hold a secret ("},
      {"\n# whsec_none\n", "must hold a secret ("},
      {"WHSEC_" + marker, "must hold base64"},
      {"whsec_" + marker + "!", "must hold base64"},
      {"whsec_" + marker + "=", "must hold base64"},
      {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "must hold base64"},
      {"whsec_-_ECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "must hold base64"},
      {"whsec_", "must hold secrets of 24 to 64 bytes (one has 0)"},
      {"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=", "must hold secrets of 24 to 64 bytes (one has 23)"},
      {"whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoOEhYaHiImKi4yNjo+QkZKTlJWWl5iZmpucnZ6foKGio6Q=",
       "must hold secrets of 24 to 64 bytes (one has 65)"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.text);
    const auto read = webhook_secrets_of(c.text);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().substr(0, std::string_view{c.problem}.size()), c.problem);
    EXPECT_EQ(read.error().find("SECRET"), std::string::npos);
  }
  std::string many;
  for (int i = 0; i < 9; ++i) many += std::string{kSmall} + "\n";
  EXPECT_FALSE(webhook_secrets_of(many));
}

}  // namespace standard_webhooks_test
}  // namespace gateway
