#include "gateway/kept_request.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/issued_key.h"

namespace gateway {
namespace kept_request_test {

using classifier::Headers;
using Names = std::vector<std::string>;

TEST(KeptRequest, keeps_what_is_needed_to_make_it_again) {
  const Headers headers = {{"Content-Type", "application/json"},
                           {"accept", "text/event-stream"},
                           {"anthropic-version", "2023-06-01"},
                           {"Anthropic-Beta", "a"},
                           {"anthropic-beta", "b"},
                           {"OpenAI-Organization", "org-1"},
                           {"OpenAI-Project", "proj_1"},
                           {"OpenAI-Beta", "assistants=v2"},
                           {"x-goog-user-project", "p-1"},
                           {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
                           {"X-Amzn-Bedrock-GuardrailIdentifier", "g"},
                           {"Content-Encoding", "gzip"}};
  const std::string body{"{\"messages\": [ ]}\0\xff", 19};
  const auto kept =
      keep_request("POST", "/azure/openai/deployments/d/chat/completions?api-version=2024-10-21", headers, body);
  EXPECT_EQ(kept->method, "POST");
  EXPECT_EQ(kept->target, "/azure/openai/deployments/d/chat/completions?api-version=2024-10-21");
  EXPECT_EQ(kept->headers, headers);
  EXPECT_EQ(kept->body, body);
}

TEST(KeptRequest, has_the_query_without_what_may_hold_a_key) {
  struct Case {
    const char* target;
    const char* kept;
    Names left_out;
  };
  const Case kCases[] = {
      {"/gemini/v1beta/models/m:streamGenerateContent?alt=sse&key=S",
       "/gemini/v1beta/models/m:streamGenerateContent?alt=sse",
       {}},
      {"/x?key=S&alt=sse", "/x?alt=sse", {}},
      {"/x?key=S", "/x", {}},
      {"/x?", "/x", {}},
      {"/x?&&alt=sse&", "/x?alt=sse", {}},
      {"/x?alt=sse;key=S;beta=true", "/x?alt=sse;beta=true", {}},
      {"/x?%6bey=S&%24alt=sse&include%5B%5D=a", "/x?%24alt=sse&include%5B%5D=a", {}},
      {"/x?api_key=S&apikey=S&Api-Key=S&access_token=S&sig=S&se=1&X-Amz-Signature=S&X-Amz-Credential=S",
       "/x",
       {"se"}},
      {"/x?tuning=3&alt=sse&flag", "/x?alt=sse", {"tuning", "flag"}},
      {"/x?alt=a?key=S", "/x?alt=a?key=S", {}},
      {"/x#key=S", "/x", {}},
      {"/x?alt=sse#key=S", "/x?alt=sse", {}},
      {"*", "*", {}},
      {"", "", {}},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.target);
    EXPECT_EQ(keep_request("GET", c.target, {}, "")->target, c.kept);
    EXPECT_EQ(left_out_of(c.target), c.left_out);
  }
}

TEST(KeptRequest, has_no_issued_key_anywhere_in_its_target) {
  const std::string key = new_issued_key();
  std::string encoded;
  for (const char c : key) {
    encoded += '%';
    encoded += "0123456789ABCDEF"[static_cast<unsigned char>(c) >> 4U];
    encoded += "0123456789ABCDEF"[static_cast<unsigned char>(c) & 15U];
  }
  EXPECT_EQ(keep_request("GET", "/openai/v1/files/" + key, {}, "")->target, "/openai/v1/files/-");
  EXPECT_EQ(keep_request("GET", "/" + key + "/v1/x", {}, "")->target, "/-/v1/x");
  EXPECT_EQ(keep_request("GET", "/a/x:" + key + "?model=" + key + "&alt=sse", {}, "")->target, "/a/-?alt=sse");
  EXPECT_EQ(keep_request("GET", "/a/" + encoded + "?alt=x" + encoded + "&model=Bearer%20" + key, {}, "")->target,
            "/a/-");
  EXPECT_EQ(keep_request("GET", "/a?model=" + encoded, {}, "")->target, "/a");
  EXPECT_EQ(keep_request("GET", "/a/cg_mini?model=cg_mini", {}, "")->target, "/a/cg_mini?model=cg_mini")
      << "a model may be called so";
  EXPECT_TRUE(keep_request("GET", "/a", {{"openai-project", key}, {"accept", "Bearer " + key}}, "")->headers.empty());
}

// Goal: no secret is stored. Method: a marker in every place where one could be.
TEST(KeptRequest, lets_no_secret_through) {
  const std::string mark = "MARKER7f3a";
  Headers headers;
  for (const char* name : {"Authorization",
                           "AUTHORIZATION",
                           "x-api-key",
                           "api-key",
                           "X-Goog-Api-Key",
                           "Ocp-Apim-Subscription-Key",
                           "Cookie",
                           "Cookie2",
                           "Set-Cookie",
                           "Proxy-Authorization",
                           "Proxy-Connection",
                           "X-Amz-Security-Token",
                           "X-Amz-Date",
                           "X-Amz-Content-Sha256",
                           "Amz-Sdk-Invocation-Id",
                           "X-Forwarded-For",
                           "X-Forwarded-Client-Cert",
                           "X-Auth",
                           "X-Session",
                           "X-Stainless-Os",
                           "User-Agent",
                           "Referer",
                           "Origin",
                           "Host",
                           "Idempotency-Key",
                           "traceparent",
                           "tracestate",
                           "Callgate-Tenant",
                           "x-company-internal",
                           "content-type ",
                           "x-content-type",
                           "anthropic-api-key",
                           "openai-api-key",
                           ""}) {
    headers.push_back({name, "Bearer " + mark});
  }
  std::string target = "/openai/v1/chat/completions?alt=sse";
  for (const char* name : {"key",
                           "KEY",
                           "$key",
                           "%6B%65%79",
                           "%256Bey",
                           "api_key",
                           "api-key",
                           "apikey",
                           "access_token",
                           "oauth_token",
                           "token",
                           "auth",
                           "sig",
                           "signature",
                           "X-Amz-Signature",
                           "X-Amz-Security-Token",
                           "X-Goog-Signature",
                           "subscription-key",
                           "client_secret",
                           "password",
                           "upload_id",
                           "anything",
                           ""}) {
    target += std::string{"&"} + name + "=" + mark;
  }
  target += "&" + mark;
  const auto kept = keep_request("POST", target, headers, "{}");
  EXPECT_EQ(kept->target, "/openai/v1/chat/completions?alt=sse");
  EXPECT_TRUE(kept->headers.empty());
  EXPECT_EQ(left_out_of(target), (Names{"upload_id", "anything", "", mark})) << "names are said, values never";
}

}  // namespace kept_request_test
}  // namespace gateway
