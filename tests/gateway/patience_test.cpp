#include "gateway/patience.h"

#include <gtest/gtest.h>

namespace gateway {
namespace patience_test {

using namespace std::chrono_literals;
using classifier::Headers;

struct Case {
  const char* user_agent;
  const char* header;  // "name: value", "" for none.
  std::chrono::milliseconds at_least;
  std::chrono::milliseconds below;  // The client gives up here.
};

TEST(Patience, ends_shortly_before_the_clients_own) {
  const Case cases[] = {
      {"OpenAI/JS 6.49.0", "", 280s, 300s},
      {"OpenAI/JS 4.104.0", "", 580s, 600s},
      {"Anthropic/JS 1.14.0", "x-stainless-timeout: 600", 280s, 300s},
      {"Anthropic/JS 0.39.0", "x-stainless-timeout: 600000", 580s, 600s},
      {"OpenAI/Python 2.54.0", "x-stainless-read-timeout: 600", 580s, 600s},
      {"OpenAI/Python 2.54.0", "x-stainless-read-timeout: 20", 18s, 20s},
      {"Anthropic/Python 0.121.0", "x-stainless-timeout: NOT_GIVEN", 580s, 600s},
      {"OpenAI/JS 6.49.0", "x-stainless-timeout: 0", 280s, 300s},
      {"OpenAI/JS 6.49.0", "x-stainless-timeout: -3", 280s, 300s},
      {"OpenAI/JS 6.49.0", "x-stainless-timeout: inf", 280s, 300s},
      {"OpenAI/JS 6.49.0", "x-stainless-timeout: 1e300", 280s, 300s},
      {"OpenAI/JS 6.49.0", "x-stainless-timeout: 0.2", 100ms, 200ms},
      {"Groq/JS 1.6.0", "", 54s, 60s},
      {"Boto3/1.43.11", "", 54s, 60s},
      {"ai/6.0.326 ai-sdk/provider-utils", "", 280s, 300s},
      {"google-genai-sdk/2.32.0 gl-node/20", "x-server-timeout: 30", 27s, 30s},
      {"", "", 580s, 600s},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string{c.user_agent} + " " + c.header);
    Headers headers = {{"User-Agent", c.user_agent}};
    const std::string text = c.header;
    if (!text.empty()) headers.push_back({text.substr(0, text.find(':')), text.substr(text.find(':') + 2)});
    const auto patience = patience_of(headers);
    EXPECT_GE(patience, c.at_least);
    EXPECT_LT(patience, c.below);
  }
}

}  // namespace patience_test
}  // namespace gateway
