// Goal: the three clouds' paths, requests, errors and counts are read as their documentation and recorded answers
// have them, in whichever family's language the model behind them answers.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "classifier/dialect.h"
#include "tests/classifier/help.h"

namespace cloud_test {

using classifier::ApiPath;
using classifier::Class;
using classifier::Dialect;
using classifier::Endpoint;
using classifier::Headers;
using classifier_tests::padded;
using classifier_tests::spelled;
using Json = nlohmann::json;

const Dialect& spoken(std::string_view name) { return *classifier::find_dialect(name); }

constexpr std::string_view kGoogle = "/v1/projects/p/locations/l/publishers/google/models/";
constexpr std::string_view kClaude = "/v1/projects/p/locations/l/publishers/anthropic/models/";

std::string at(std::string_view front, std::string_view rest) { return std::string{front}.append(rest); }

TEST(CloudEndpoint, is_known_by_its_path) {
  const struct {
    std::string_view dialect;
    std::string_view method;
    std::string path;
    std::string_view want;
  } kCases[] = {
      {"bedrock", "POST", "/model/anthropic.claude-v1:0/converse", "chat safe understood"},
      {"bedrock", "POST", "/model/anthropic.claude-v1%3A0/converse-stream", "chat safe understood"},
      {"bedrock", "POST", "/model/m/invoke", "completions safe understood"},
      {"bedrock", "POST", "/model/m/invoke-with-response-stream", "completions safe understood"},
      {"bedrock", "POST", "/model/m/count-tokens", "count_tokens safe understood"},
      {"bedrock",
       "POST",
       "/model/arn:aws:bedrock:us-east-1:1:inference-profile/us.m/converse",
       "chat safe understood"},
      {"bedrock",
       "POST",
       "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.m/invoke",
       "completions safe understood"},
      {"bedrock", "POST", "/guardrail/g/version/1/apply", "moderation safe understood"},
      {"bedrock", "POST", "/async-invoke", "other"},
      {"bedrock", "GET", "/async-invoke/arn", "other safe"},
      {"bedrock", "POST", "/model/m/invoke-with-bidirectional-stream", "other"},
      {"bedrock", "POST", "/model/converse", "other"},
      {"bedrock", "POST", "/openai/v1/chat/completions", "chat safe understood borrowed"},
      {"azure", "POST", "/openai/deployments/d/chat/completions", "chat safe understood"},
      {"azure", "POST", "/deployments/d/chat/completions", "chat safe understood"},
      {"azure", "POST", "/openai/deployments/d/completions", "completions safe understood"},
      {"azure", "POST", "/openai/deployments/d/embeddings", "embeddings safe understood"},
      {"azure", "POST", "/openai/deployments/d/images/generations", "other safe understood"},
      {"azure", "POST", "/openai/deployments/d/audio/speech", "other safe"},
      {"azure", "POST", "/openai/responses", "responses safe understood"},
      {"azure", "POST", "/openai/v1/responses", "responses safe understood borrowed"},
      {"azure", "POST", "/openai/v1/chat/completions", "chat safe understood borrowed"},
      {"azure", "POST", "/chat/completions", "chat safe understood borrowed"},
      {"azure", "POST", "/models/chat/completions", "chat safe understood"},
      {"azure", "POST", "/anthropic/v1/messages", "messages safe understood"},
      {"azure", "POST", "/openai/v1/files", "other"},
      {"azure", "GET", "/openai/deployments", "other safe"},
      {"azure", "POST", "/openai/deployments/a/b/chat/completions", "other"},
      {"vertex", "POST", at(kGoogle, "gemini-2.5-pro:generateContent"), "generate_content safe understood"},
      {"vertex", "POST", at(kGoogle, "gemini-2.5-pro:streamGenerateContent"), "generate_content safe understood"},
      {"vertex", "POST", at(kGoogle, "gemini-2.5-pro:countTokens"), "count_tokens safe understood"},
      {"vertex", "POST", at(kGoogle, "text-embedding-005:predict"), "other safe understood"},
      {"vertex", "POST", at(kGoogle, "veo-3:predictLongRunning"), "other"},
      {"vertex", "POST", "/v1beta1/publishers/google/models/m:generateContent", "generate_content safe understood"},
      {"vertex", "POST", at(kClaude, "claude-x@20250929:rawPredict"), "messages safe understood"},
      {"vertex", "POST", at(kClaude, "claude-x@20250929:streamRawPredict"), "messages safe understood"},
      {"vertex", "POST", at(kClaude, "count-tokens:rawPredict"), "count_tokens safe understood"},
      {"vertex", "POST", "/v1/projects/p/locations/l/endpoints/openapi/chat/completions", "chat safe understood"},
      {"vertex",
       "POST",
       "/v1beta1/projects/p/locations/l/endpoints/12345:generateContent",
       "generate_content safe understood"},
      {"vertex", "POST", "/v1/projects/p/locations/l/batchPredictionJobs", "other"},
      {"vertex", "GET", "/v1/projects/p/locations/l/batchPredictionJobs/1", "other safe"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::string{c.dialect} + " " + c.path);
    const Endpoint endpoint = spoken(c.dialect).endpoint(c.method, c.path);
    std::string got{name_of(endpoint.operation)};
    if (endpoint.replay_safe) got += " safe";
    if (endpoint.understood) got += " understood";
    if (c.method == "POST" && spoken(c.dialect).read_path(c.path).known == ApiPath::Known::Borrowed)
      got += " borrowed";
    EXPECT_EQ(got, c.want);
  }
}

TEST(CloudPath, gets_the_version_that_belongs_there_and_no_other) {
  const struct {
    std::string_view dialect;
    std::string path;
    std::string_view version;
    std::string_view home;
    std::string rest;
  } kCases[] = {
      {"azure", "/openai/deployments/d/chat/completions", "", "", "openai/deployments/d/chat/completions"},
      {"azure", "/openai/openai/deployments/d/chat/completions", "", "", "openai/deployments/d/chat/completions"},
      {"azure", "/openai/responses", "", "", "openai/responses"},
      {"azure", "/openai/v1/responses", "openai/v1", "openai/v1", "responses"},
      {"azure", "/chat/completions", "", "openai/v1", "chat/completions"},
      {"azure", "/models/chat/completions", "", "", "models/chat/completions"},
      {"azure", "/openai/v1/models", "openai/v1", "openai/v1", "models"},
      {"azure", "/anthropic/v1/messages", "", "", "anthropic/v1/messages"},
      {"bedrock", "/model/a%3A0/converse", "", "", "model/a%3A0/converse"},
      {"vertex", at(kGoogle, "m:generateContent"), "v1", "v1", at(kGoogle, "m:generateContent").substr(4)},
      {"vertex", "/v1beta1/projects/p", "v1beta1", "v1", "projects/p"},
      {"vertex",
       "/publishers/google/models/m:generateContent",
       "",
       "v1",
       "publishers/google/models/m:generateContent"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.path);
    const ApiPath read = spoken(c.dialect).read_path(c.path);
    EXPECT_NE(read.known, ApiPath::Known::No);
    EXPECT_EQ(read.version, c.version);
    EXPECT_EQ(read.home, c.home);
    EXPECT_EQ(read.rest, c.rest);
  }
}

TEST(CloudRequest, names_its_model_and_whether_it_streams) {
  const struct {
    std::string_view dialect;
    std::string path;
    std::string_view query;
    std::string_view body;
    std::string_view want;
  } kCases[] = {
      {"bedrock",
       "/model/us.amazon.nova-lite-v1:0/converse",
       "",
       R"({"inferenceConfig":{"maxTokens":64}})",
       "us.amazon.nova-lite-v1:0 unary 64 usage"},
      {"bedrock", "/model/anthropic.claude-v1%3A0/converse-stream", "", "{}", "anthropic.claude-v1:0 stream - usage"},
      {"bedrock",
       "/model/arn%3Aaws%3Abedrock%3Ar%3A1%3Ainference-profile%2fus.m/invoke",
       "",
       R"({"max_tokens":5,"stream":true})",
       "arn:aws:bedrock:r:1:inference-profile/us.m unary 5 usage"},
      {"bedrock",
       "/model/arn:aws:bedrock:r:1:inference-profile/us.m/invoke-with-response-stream",
       "",
       R"({"max_gen_len":7})",
       "arn:aws:bedrock:r:1:inference-profile/us.m stream 7 usage"},
      {"bedrock",
       "/model/amazon.titan/invoke",
       "",
       R"({"textGenerationConfig":{"maxTokenCount":9}})",
       "amazon.titan unary 9 usage"},
      {"bedrock", "/model/a%00b%zz%/invoke", "", "{}", "a%00b%zz% unary - usage"},
      {"bedrock",
       "/openai/v1/chat/completions",
       "",
       R"({"model":"openai.gpt-oss","stream":true})",
       "openai.gpt-oss stream - no-usage"},
      {"azure",
       "/openai/deployments/my%20prod/chat/completions",
       "api-version=2024-10-21",
       R"({"model":"gpt-4o","stream":true})",
       "my%20prod stream - no-usage"},
      {"azure",
       "/openai/deployments/prod/chat/completions",
       "api-version=2024-06-01",
       R"({"stream":true})",
       "prod stream - usage"},
      {"azure",
       "/openai/deployments/prod/chat/completions",
       "api-version=2024-09-01-preview",
       R"({"stream":true})",
       "prod stream - no-usage"},
      {"azure",
       "/openai/v1/chat/completions",
       "api-version=preview",
       R"({"model":"d","stream":true})",
       "d stream - no-usage"},
      {"azure", "/openai/v1/responses", "", R"({"model":"d"})", "d unary - usage"},
      {"vertex",
       at(kGoogle, "gemini-x:generateContent"),
       "",
       R"({"generationConfig":{"maxOutputTokens":3}})",
       "gemini-x unary 3 usage"},
      {"vertex", at(kGoogle, "gemini-x:streamGenerateContent"), "alt=sse", "{}", "gemini-x stream - usage"},
      {"vertex", at(kGoogle, "gemini-x:streamGenerateContent"), "", "{}", "gemini-x unary - usage"},
      {"vertex",
       at(kClaude, "claude-x%4020250929:streamRawPredict"),
       "",
       R"({"max_tokens":8})",
       "claude-x@20250929 stream 8 usage"},
      {"vertex", at(kClaude, "claude-x@1:rawPredict"), "", R"({"stream":true})", "claude-x@1 stream - usage"},
      {"vertex", at(kClaude, "count-tokens:rawPredict"), "", R"({"model":"claude-x"})", "claude-x unary - usage"},
      {"vertex",
       "/v1/projects/e.com:p/locations/l/endpoints/openapi/chat/completions",
       "",
       R"({"model":"google/gemini-x","stream":true})",
       "google/gemini-x stream - no-usage"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.path);
    const Dialect& dialect = spoken(c.dialect);
    const std::string body = padded(c.body);
    const auto facts = dialect.read_request(dialect.endpoint("POST", c.path), c.path, c.query, body);
    std::string got = facts.model + (facts.stream ? " stream " : " unary ");
    got += facts.max_output_tokens ? std::to_string(*facts.max_output_tokens) : "-";
    got += facts.usage_asked ? " usage" : " no-usage";
    EXPECT_EQ(got, c.want);
  }
}

TEST(CloudErrors, are_judged_by_type_and_by_the_few_texts_that_decide) {
  const std::string claude = at(kClaude, "m:rawPredict");
  const std::string gemini = at(kGoogle, "m:generateContent");
  const std::string converse = "/model/m/converse";
  const std::string chat = "/openai/deployments/d/chat/completions";
  const struct {
    std::string_view dialect;
    std::string path;
    int status;
    std::string_view type;  // Of x-amzn-errortype.
    std::string_view body;
    std::string_view want;
  } kCases[] = {
      {"bedrock",
       converse,
       400,
       "ThrottlingException",
       R"({"message":"Too many tokens per day"})",
       "quota_exhausted final"},
      {"bedrock",
       converse,
       424,
       "ModelErrorException",
       R"({"message":"m","originalStatusCode":400})",
       "invalid_request final"},
      {"bedrock",
       converse,
       424,
       "ModelErrorException",
       R"({"message":"m","originalStatusCode":429})",
       "server_error retryable"},
      {"bedrock", converse, 408, "ModelTimeoutException", R"({"message":"m"})", "timeout retryable"},
      {"bedrock", converse, 403, "ExpiredTokenException", R"({"message":"m"})", "auth final"},
      {"bedrock",
       converse,
       403,
       "",
       R"({"__type":"com.amazon.coral.service#InvalidSignatureException"})",
       "auth final"},
      {"bedrock",
       converse,
       403,
       "MissingAuthenticationTokenException",
       R"({"message":"Missing Token"})",
       "auth final"},
      {"bedrock",
       converse,
       403,
       "",
       R"({"Message":"Authentication failed: Please make sure your API Key is valid."})",
       "auth final"},
      {"bedrock",
       converse,
       400,
       "ValidationException",
       R"({"message":"Invocation of model ID m with on-demand throughput isn't supported. Retry your request with the ID or ARN of an inference profile that contains this model."})",
       "invalid_request final"},
      {"bedrock",
       converse,
       400,
       "ValidationException",
       R"({"message":"The model returned the following errors: prompt is too long: 9 tokens > 8 maximum"})",
       "context_length final"},
      {"bedrock",
       converse,
       404,
       "ResourceNotFoundException",
       R"({"message":"Access denied. This Model is marked by provider as Legacy."})",
       "not_found final"},
      {"bedrock", converse, 200, "", R"({"output":{"message":{}},"stopReason":"end_turn"})", "none"},
      {"bedrock", converse, 200, "", R"({"message":"Too many requests"})", "rate_limited retryable"},
      {"bedrock", converse, 200, "", R"({"__type":"ThrottlingException"})", "rate_limited retryable"},
      {"bedrock", converse, 200, "", R"({})", "malformed_response retryable"},
      {"bedrock", converse, 200, "", R"({"output":)", "malformed_response retryable"},
      {"bedrock", "/model/m/invoke", 200, "", R"({"embedding":[0.1]})", "none"},
      {"bedrock", "/model/m/invoke", 200, "", R"({"images":["aGk="],"error":null})", "none"},
      {"bedrock", "/model/m/invoke", 200, "", R"({"error":{"message":"Overloaded"}})", "overloaded retryable"},
      {"bedrock", "/model/m/invoke", 200, "", "", "malformed_response retryable"},
      {"bedrock", "/model/m/count-tokens", 200, "", R"({"inputTokens":5})", "none"},
      {"bedrock", "/guardrail/g/version/1/apply", 200, "", R"({"action":"NONE","outputs":[],"usage":{}})", "none"},
      {"azure",
       chat,
       401,
       "",
       R"({"error":{"code":"PermissionDenied","message":"The principal lacks a role."}})",
       "permission final"},
      {"azure",
       chat,
       429,
       "",
       R"({"statusCode":429,"message":"Rate limit is exceeded. Try again in 17 seconds."})",
       "rate_limited retryable 17000 ms"},
      {"azure",
       chat,
       429,
       "",
       R"({"error":{"code":"429","message":"The system is currently experiencing high demand and cannot process your request."}})",
       "overloaded retryable"},
      {"azure",
       chat,
       429,
       "",
       R"({"statusCode":429,"message":"Token limit is exceeded. Try again in 9 seconds."})",
       "rate_limited retryable 9000 ms"},
      {"azure",
       chat,
       403,
       "",
       R"({"statusCode":403,"message":"Out of bandwidth quota. Quota will be replenished in 07:01:20."})",
       "quota_exhausted final"},
      {"azure",
       "/anthropic/v1/messages",
       403,
       "",
       R"({"statusCode":403,"message":"Token quota is exceeded. Try again in 90 seconds."})",
       "quota_exhausted final"},
      {"azure",
       chat,
       403,
       "",
       R"({"error":{"code":"403","message":"Access denied due to Virtual Network/Firewall rules."}})",
       "permission final"},
      {"azure", chat, 404, "", R"({"error":{"code":"404","message":"Resource not found"}})", "not_found final"},
      {"azure", chat, 500, "", R"({"error":{"code":"InternalServerError","message":"m"}})", "server_error retryable"},
      {"azure",
       "/anthropic/v1/messages",
       529,
       "",
       R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
       "overloaded retryable"},
      {"vertex",
       claude,
       429,
       "",
       R"([{"error":{"code":429,"message":"Quota exceeded for a base model.","status":"RESOURCE_EXHAUSTED"}}])",
       "rate_limited retryable"},
      {"vertex",
       claude,
       429,
       "",
       R"({"type":"error","error":{"type":"rate_limit_error","message":"m"}})",
       "rate_limited retryable"},
      {"vertex",
       gemini,
       500,
       "",
       R"({"error":{"code":429,"message":"Resource exhausted.","status":"RESOURCE_EXHAUSTED"}})",
       "rate_limited retryable"},
      {"vertex",
       gemini,
       200,
       "",
       R"({"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]})",
       "none"},
      {"vertex", claude, 200, "", R"({"id":"m","type":"message","content":[]})", "none"},
      {"vertex",
       at(kGoogle, "text-embedding-005:predict"),
       200,
       "",
       R"({"predictions":[{"embeddings":{}}]})",
       "none"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.body);
    const Dialect& dialect = spoken(c.dialect);
    Headers headers = {{"Content-Type", "application/json"}};
    if (!c.type.empty()) headers.push_back({"x-amzn-ErrorType", std::string{c.type}});
    EXPECT_EQ(spelled(dialect.judge(dialect.endpoint("POST", c.path),
                                    {.status = c.status, .headers = &headers, .body = c.body})),
              c.want);
  }
}

TEST(CloudErrors, a_guardrails_answer_is_a_refusal_in_whichever_form_the_model_answers) {
  const Headers json = {{"Content-Type", "application/json"}};
  const auto judged = [&](std::string_view operation, std::string_view body) {
    const Endpoint endpoint = spoken("bedrock").endpoint("POST", "/model/m/" + std::string{operation});
    return spoken("bedrock").judge(endpoint, {.status = 200, .headers = &json, .body = body});
  };
  const struct {
    std::string_view operation;
    std::string_view body;
  } kRefused[] = {
      {"converse", R"({"output":{"message":{"content":[{"text":"No."}]}},"stopReason":"guardrail_intervened"})"},
      {"converse", R"({"output":{"message":{"content":[{"text":"Half"}]}},"stopReason":"content_filtered"})"},
      {"invoke",
       R"({"type":"message","content":[{"type":"text","text":"No."}],"stop_reason":"end_turn","amazon-bedrock-guardrailAction":"INTERVENED"})"},
      {"invoke",
       R"({"type":"message","content":[{"type":"text","text":"No."}],"stop_reason":"guardrail_intervened"})"},
      {"invoke", R"({"generation":"No.","stop_reason":"stop","amazon-bedrock-guardrailAction":"INTERVENED"})"},
      {"invoke", R"({"results":[{"outputText":"","completionReason":"CONTENT_FILTERED"}]})"},
      {"invoke",
       R"({"object":"chat.completion","choices":[{"index":0,"message":{"content":"No."},"finish_reason":"stop"}],"amazon-bedrock-guardrailAction":"INTERVENED"})"},
  };
  for (const auto& c : kRefused) {
    const classifier::Verdict verdict = judged(c.operation, c.body);
    EXPECT_EQ(spelled(verdict), "content_policy final") << c.body;
    EXPECT_TRUE(verdict.is_answer) << c.body;
  }
  EXPECT_EQ(spelled(judged("invoke", R"({"generation":"a","amazon-bedrock-guardrailAction":"NONE"})")), "none");
  // A guardrail that was asked for its opinion has answered.
  EXPECT_EQ(
      spelled(spoken("bedrock").judge(spoken("bedrock").endpoint("POST", "/guardrail/g/version/1/apply"),
                                      {.status = 200,
                                       .headers = &json,
                                       .body = R"({"action":"GUARDRAIL_INTERVENED","outputs":[{"text":"No."}]})"})),
      "none");
}

TEST(CloudUsage, of_models_behind_bedrock_is_theirs_and_else_bedrocks) {
  const Headers counted = {{"Content-Type", "application/json"},
                           {"X-Amzn-Bedrock-Input-Token-Count", "11"},
                           {"X-Amzn-Bedrock-Output-Token-Count", "4"},
                           {"X-Amzn-Bedrock-Cache-Read-Input-Token-Count", "6"},
                           {"X-Amzn-Bedrock-Cache-Write-Input-Token-Count", "2"}};
  const struct {
    std::string_view operation;
    std::string_view body;
    std::string_view want;
  } kCases[] = {
      {"invoke", R"({"outputs":[{"text":"a","stop_reason":"stop"}]})", " 19 6 2 0 4 0 stop"},
      {"invoke", R"({"text":"a","generation_id":"g","finish_reason":"COMPLETE"})", " 19 6 2 0 4 0 COMPLETE"},
      {"invoke", R"({"embedding":[1],"inputTextTokenCount":5})", " 5 0 0 0 0 0 unfinished"},
      {"invoke",
       R"({"generation":"a","prompt_token_count":3,"generation_token_count":1,"stop_reason":"stop"})",
       " 3 0 0 0 1 0 stop"},
      {"invoke",
       R"({"results":[{"tokenCount":2,"completionReason":"FINISH"},{"tokenCount":3}],"inputTextTokenCount":1})",
       " 1 0 0 0 5 0 FINISH"},
      {"invoke",
       R"({"object":"chat.completion","model":"g","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}})",
       "g 9 8 0 0 2 0 stop"},
      {"invoke", R"({"images":["aGk="]})", " 19 6 2 0 4 0 unfinished"},
      {"converse",
       R"({"output":{},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2,"cacheWriteInputTokens":100,"cacheDetails":[{"ttl":"1h","inputTokens":60},{"ttl":"5m","inputTokens":40}]}})",
       " 101 0 40 60 2 0 end_turn"},
      {"converse",
       R"({"output":{},"stopReason":"end_turn","usage":{"inputTokens":-1,"outputTokens":2}})",
       " unknown end_turn"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.body);
    const Endpoint endpoint = spoken("bedrock").endpoint("POST", "/model/m/" + std::string{c.operation});
    EXPECT_EQ(spelled(spoken("bedrock").read(endpoint, {.status = 200, .headers = &counted, .body = c.body}).usage),
              c.want);
  }
}

TEST(CloudUsage, tells_the_tier_that_sets_the_price) {
  const Headers json = {{"Content-Type", "application/json"}, {"x-amzn-bedrock-service-tier", "flex"}};
  const auto tier = [&](std::string_view dialect, std::string_view path, std::string_view body) {
    const Endpoint endpoint = spoken(dialect).endpoint("POST", path);
    return spoken(dialect).read(endpoint, {.status = 200, .headers = &json, .body = body}).usage.service_tier;
  };
  EXPECT_EQ(tier("vertex",
                 at(kGoogle, "m:generateContent"),
                 R"({"candidates":[],"usageMetadata":{"promptTokenCount":1,"trafficType":"ON_DEMAND_FLEX"}})"),
            "ON_DEMAND_FLEX");
  EXPECT_EQ(tier("bedrock", "/model/m/converse", R"({"output":{},"serviceTier":{"type":"priority"}})"), "priority");
  EXPECT_EQ(tier("bedrock", "/model/m/invoke", R"({"generation":"a"})"), "flex");
}

const classifier::OwnError kError{.status = 503,
                                  .cls = Class::LocalDraining,
                                  .message = "going \"away\"",
                                  .code = "callgate_draining",
                                  .call_id = "i"};

TEST(CloudOwnErrors, have_the_form_and_the_headers_by_which_sdks_know_them) {
  EXPECT_EQ(spoken("bedrock").error_body(kError), R"({"message":"going \"away\""})");
  const Headers want = {{"x-amzn-errortype", "ServiceUnavailableException"}};
  EXPECT_EQ(spoken("bedrock").error_headers(kError), want);
  EXPECT_EQ(spoken("azure").error_body(kError), spoken("openai").error_body(kError));
  EXPECT_EQ(spoken("vertex").error_body(kError), spoken("gemini").error_body(kError));
  for (const std::string_view name : {"openai", "anthropic", "gemini", "azure", "vertex"}) {
    EXPECT_TRUE(spoken(name).error_headers(kError).empty()) << name;
  }
}

TEST(CloudOwnErrors, end_a_stream_in_the_language_of_its_model) {
  const auto event = [](std::string_view dialect, const std::string& path) {
    return spoken(dialect).error_event(spoken(dialect).endpoint("POST", path), kError);
  };
  const auto beat = [](std::string_view dialect, const std::string& path) {
    return spoken(dialect).heartbeat(spoken(dialect).endpoint("POST", path));
  };
  const std::string openapi = "/v1/projects/p/locations/l/endpoints/openapi/chat/completions";
  EXPECT_EQ(event("vertex", at(kClaude, "m:streamRawPredict")), event("anthropic", "/v1/messages"));
  EXPECT_EQ(event("vertex", at(kGoogle, "m:streamGenerateContent")),
            event("gemini", "/v1beta/models/m:streamGenerateContent"));
  EXPECT_EQ(event("vertex", openapi), event("openai", "/v1/chat/completions"));
  EXPECT_EQ(event("azure", "/openai/deployments/d/chat/completions"), event("openai", "/v1/chat/completions"));
  EXPECT_EQ(event("azure", "/openai/v1/responses"), event("openai", "/v1/responses"));
  EXPECT_EQ(event("azure", "/anthropic/v1/messages"), event("anthropic", "/v1/messages"));
  EXPECT_EQ(event("bedrock", "/openai/v1/chat/completions"), event("openai", "/v1/chat/completions"));
  EXPECT_EQ(beat("vertex", at(kClaude, "m:streamRawPredict")), beat("anthropic", "/v1/messages"));
  EXPECT_EQ(beat("vertex", at(kGoogle, "m:streamGenerateContent")), "\n");
  EXPECT_EQ(beat("azure", "/openai/deployments/d/chat/completions"), ": ka\n");
  EXPECT_EQ(beat("bedrock", "/model/m/converse-stream"), "") << "no frame means nothing";
}

TEST(Cloud, keys_statuses_and_request_ids_are_the_providers) {
  EXPECT_EQ(spoken("azure").key_header().name, "api-key");
  EXPECT_EQ(spoken("azure").key_header().scheme, "");
  EXPECT_EQ(spoken("vertex").key_header().scheme, "Bearer ");
  EXPECT_EQ(spoken("bedrock").key_header().name, "authorization");
  EXPECT_EQ(spoken("azure").request_id_header(), "apim-request-id");
  EXPECT_EQ(spoken("bedrock").request_id_header(), "x-amzn-requestid");
  EXPECT_EQ(spoken("bedrock").status_of(Class::Auth), 403);
  EXPECT_EQ(spoken("bedrock").status_of(Class::Timeout), 408);
  EXPECT_EQ(spoken("bedrock").status_of(Class::RateLimited), 429);
}

TEST(CloudStream, of_a_claude_at_vertex_is_anthropics) {
  const Dialect& vertex = spoken("vertex");
  const Endpoint endpoint = vertex.endpoint("POST", at(kClaude, "m:streamRawPredict"));
  const Headers head = {{"Content-Type", "text/event-stream"}};
  ASSERT_TRUE(vertex.is_stream(endpoint, {}, head));
  const auto reader = vertex.stream_reader(endpoint, {}, head, false);
  reader->feed(classifier_tests::fixture("anthropic/plain.sse"));
  EXPECT_TRUE(reader->complete());
  EXPECT_EQ(spelled(reader->usage()), "claude-sonnet-4-5-20250929 25 0 0 0 15 0 end_turn");
}

}  // namespace cloud_test
