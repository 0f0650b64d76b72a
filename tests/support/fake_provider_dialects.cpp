#include "tests/support/fake_provider_dialects.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace fake_provider {
namespace {

// openai

constexpr Failure kOpenai = {
    R"({"error":{"message":$message,"type":"$openai_type","param":null,"code":"$openai_code"}})",
    R"(data: {"error":{"message":$message,"type":"$openai_type","param":null,"code":"$openai_code"}}

)",
    "x-request-id"};

constexpr std::string_view kChat =
    R"({"id":"chatcmpl-$id","object":"chat.completion","created":1760000000,"model":$model,)"
    R"("choices":[{"index":0,"message":{"role":"assistant","content":$text,"refusal":null},"logprobs":null,)"
    R"("finish_reason":"stop"}],"usage":$chat_usage,"service_tier":"default"})";
constexpr std::string_view kChatBegin =
    R"(data: {"id":"chatcmpl-$id","object":"chat.completion.chunk","created":1760000000,"model":$model,)"
    R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]$no_usage_yet}

)";
constexpr std::string_view kChatDelta =
    R"(data: {"id":"chatcmpl-$id","object":"chat.completion.chunk","created":1760000000,"model":$model,)"
    R"("choices":[{"index":0,"delta":{"content":$delta},"finish_reason":null}]$no_usage_yet}

)";
constexpr std::string_view kChatFinish =
    R"(data: {"id":"chatcmpl-$id","object":"chat.completion.chunk","created":1760000000,"model":$model,)"
    R"("choices":[{"index":0,"delta":{},"finish_reason":"stop"}]$last_usage}

$usage_chunk_if_asked;data: [DONE]

)";
constexpr std::string_view kChatUsageChunk =
    R"(data: {"id":"chatcmpl-$id","object":"chat.completion.chunk","created":1760000000,"model":$model,)"
    R"("choices":[],"usage":$chat_usage}

)";
constexpr std::string_view kChatUsage =
    R"({"prompt_tokens":$input,"completion_tokens":$output,"total_tokens":$total,)"
    R"("prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}})";

constexpr Failure kOpenaiResponses = {
    kOpenai.body,
    R"(event: error
data: {"type":"error","sequence_number":$seq,"code":"$openai_code","message":$message,"param":null,)"
    R"("error":{"message":$message,"type":"$openai_type","param":null,"code":"$openai_code"}}

)",
    "x-request-id"};

constexpr std::string_view kResponse =
    R"({"id":"resp_$id","object":"response","created_at":1760000000,"status":"completed","error":null,)"
    R"("incomplete_details":null,"model":$model,"output":[{"type":"message","id":"msg_$id",)"
    R"("status":"completed","role":"assistant",)"
    R"("content":[{"type":"output_text","text":$text,"annotations":[]}]}],)"
    R"("parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":{"input_tokens":$input,)"
    R"("input_tokens_details":{"cached_tokens":0},"output_tokens":$output,)"
    R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":$total}})";
constexpr std::string_view kResponseBegun =
    R"({"id":"resp_$id","object":"response","created_at":1760000000,"status":"in_progress","error":null,)"
    R"("incomplete_details":null,"model":$model,"output":[],)"
    R"("parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null})";
constexpr std::string_view kResponseBegin =
    R"(event: response.created
data: {"type":"response.created","sequence_number":$seq,"response":$begun_response}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":$seq,"response":$begun_response}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":$seq,"output_index":0,"item":{"type":"message",)"
    R"("id":"msg_$id","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":$seq,"item_id":"msg_$id","output_index":0,)"
    R"("content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}

)";
constexpr std::string_view kResponseDelta =
    R"(event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":$seq,"item_id":"msg_$id","output_index":0,)"
    R"("content_index":0,"delta":$delta,"logprobs":[]}

)";
constexpr std::string_view kResponseFinish =
    R"(event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":$seq,"item_id":"msg_$id","output_index":0,)"
    R"("content_index":0,"text":$text,"logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":$seq,"item_id":"msg_$id","output_index":0,)"
    R"("content_index":0,"part":{"type":"output_text","text":$text,"annotations":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":$seq,"output_index":0,"item":{"type":"message",)"
    R"("id":"msg_$id","status":"completed","role":"assistant",)"
    R"("content":[{"type":"output_text","text":$text,"annotations":[]}]}}

event: response.completed
data: {"type":"response.completed","sequence_number":$seq,"response":$whole_response}

)";

constexpr std::string_view kEmbeddings =
    R"({"id":"embd-$id","object":"list","data":[{"object":"embedding","index":0,"embedding":$embedding}],)"
    R"("model":$model,"usage":{"prompt_tokens":$input,"total_tokens":$input}})";
constexpr std::string_view kModerations =
    R"({"id":"modr-$id","model":$model,"results":[{"flagged":false,"categories":{"violence":false},)"
    R"("category_scores":{"violence":0.01}}]})";
constexpr std::string_view kModels =
    R"({"object":"list","data":[{"id":"gpt-5-mini","object":"model","created":1760000000,)"
    R"("owned_by":"system"}]})";

// anthropic

constexpr Failure kAnthropic = {
    R"({"type":"error","error":{"type":"$anthropic_type","message":$message},"request_id":"req_$id"})",
    R"(event: error
data: {"type":"error","error":{"type":"$anthropic_type","message":$message}}

)",
    "request-id"};

constexpr std::string_view kMessage =
    R"({"id":"msg_$id","type":"message","role":"assistant","model":$model,)"
    R"("content":[{"type":"text","text":$text}],"stop_reason":"end_turn","stop_sequence":null,)"
    R"("usage":{"input_tokens":$input,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,)"
    R"("output_tokens":$output}})";
constexpr std::string_view kMessageBegin =
    R"(event: message_start
data: {"type":"message_start","message":{"id":"msg_$id","type":"message","role":"assistant","model":$model,)"
    R"("content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":$input,)"
    R"("cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

)";
constexpr std::string_view kMessageDelta =
    R"(event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":$delta}}

)";
constexpr std::string_view kMessageFinish =
    R"(event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},)"
    R"("usage":{"output_tokens":$output}}

event: message_stop
data: {"type":"message_stop"}

)";

// gemini, whose lines end with CRLF

constexpr Failure kGemini = {R"({"error":{"code":$status,"message":$message,"status":"$gemini_status"}})",
                             R"(data: {"error":{"code":$status,"message":$message,"status":"$gemini_status"}})"
                             "\r\n\r\n",
                             ""};

constexpr std::string_view kGenerated =
    R"({"candidates":[{"content":{"parts":[{"text":$text}],"role":"model"},"finishReason":"STOP",)"
    R"("index":0}],"usageMetadata":$gemini_usage,"modelVersion":$model,"responseId":"$id"})";
constexpr std::string_view kGeneratedAsArray =
    R"([{"candidates":[{"content":{"parts":[{"text":$text}],"role":"model"},"finishReason":"STOP",)"
    R"("index":0}],"usageMetadata":$gemini_usage,"modelVersion":$model,"responseId":"$id"}])";
constexpr std::string_view kGeneratedDelta =
    R"(data: {"candidates":[{"content":{"parts":[{"text":$delta}],"role":"model"},"index":0}],)"
    R"("usageMetadata":$gemini_usage,"modelVersion":$model,"responseId":"$id"})"
    "\r\n\r\n";
constexpr std::string_view kGeneratedFinish =
    R"(data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP",)"
    R"("index":0}],"usageMetadata":$gemini_usage,"modelVersion":$model,"responseId":"$id"})"
    "\r\n\r\n";
constexpr std::string_view kGeminiUsage =
    R"({"promptTokenCount":$input,"candidatesTokenCount":$output,"totalTokenCount":$total})";

constexpr std::string_view kContentEmbedded = R"({"embedding":{"values":[0.5,-0.25,0.125]}})";
constexpr std::string_view kContentsEmbedded =
    R"({"embeddings":[{"values":[0.5,-0.25,0.125]}],"usageMetadata":{"promptTokenCount":$input}})";

// cohere

constexpr Failure kCohere = {R"({"id":"$id","message":$message})",
                             R"(event: message-end
data: {"type":"message-end","delta":{"finish_reason":"ERROR","error":$message}}

)",
                             ""};

constexpr std::string_view kCohereChat =
    R"({"id":"$id","message":{"role":"assistant","content":[{"type":"text","text":$text}]},)"
    R"("finish_reason":"COMPLETE","usage":$cohere_usage})";
constexpr std::string_view kCohereBegin =
    R"(event: message-start
data: {"type":"message-start","id":"$id","delta":{"message":{"role":"assistant","content":[]}}}

event: content-start
data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}

)";
constexpr std::string_view kCohereDelta =
    R"(event: content-delta
data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":$delta}}}}

)";
constexpr std::string_view kCohereFinish =
    R"(event: content-end
data: {"type":"content-end","index":0}

event: message-end
data: {"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":$cohere_usage}}

data: [DONE]

)";
constexpr std::string_view kCohereUsage = R"({"billed_units":{"input_tokens":$input,"output_tokens":$output},)"
                                          R"("tokens":{"input_tokens":$input,"output_tokens":$output}})";

constexpr std::string_view kCohereEmbedded =
    R"({"id":"$id","embeddings":{"float":[[0.5,-0.25,0.125]]},"texts":["hello"],"response_type":"embeddings_by_type",)"
    R"("meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":$input}}})";
constexpr std::string_view kCohereReranked =
    R"({"id":"$id","results":[{"index":0,"relevance_score":0.9}],)"
    R"("meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}})";

// Its first version, whose streams are lines of JSON.

constexpr Failure kCohere1 = {kCohere.body,
                              R"({"is_finished":true,"event_type":"stream-end","finish_reason":"ERROR",)"
                              R"("response":{"response_id":"$id","text":$message,"finish_reason":"ERROR"}}
)",
                              ""};
constexpr std::string_view kCohere1Chat =
    R"({"response_id":"$id","text":$text,"generation_id":"g$id","chat_history":[],"finish_reason":"COMPLETE",)"
    R"("meta":{"api_version":{"version":"1"},"billed_units":{"input_tokens":$input,"output_tokens":$output}}})";
constexpr std::string_view kCohere1Begin =
    R"({"is_finished":false,"event_type":"stream-start","generation_id":"g$id"}
)";
constexpr std::string_view kCohere1Delta =
    R"({"is_finished":false,"event_type":"text-generation","text":$delta}
)";
constexpr std::string_view kCohere1Finish =
    R"({"is_finished":true,"event_type":"stream-end","response":$cohere1_chat,"finish_reason":"COMPLETE"}
)";
constexpr std::string_view kCohere1Embedded =
    R"({"id":"$id","embeddings":[[0.5,-0.25,0.125]],"texts":["hello"],"response_type":"embeddings_floats",)"
    R"("meta":{"api_version":{"version":"1"},"billed_units":{"input_tokens":$input}}})";

// ollama, whose streams are lines of JSON

constexpr Failure kOllama = {R"({"error":$message})",
                             R"({"error":$message}
)",
                             ""};

constexpr std::string_view kOllamaChat =
    R"({"model":$model,"created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":$text},$ollama_end})";
constexpr std::string_view kOllamaChatDelta =
    R"({"model":$model,"created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":$delta},"done":false}
)";
constexpr std::string_view kOllamaChatFinish =
    R"({"model":$model,"created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":""},$ollama_end}
)";
constexpr std::string_view kOllamaGenerated =
    R"({"model":$model,"created_at":"2026-01-01T00:00:00Z","response":$text,$ollama_end})";
constexpr std::string_view kOllamaGeneratedDelta =
    R"({"model":$model,"created_at":"2026-01-01T00:00:00Z","response":$delta,"done":false}
)";
constexpr std::string_view kOllamaGeneratedFinish =
    R"({"model":$model,"created_at":"2026-01-01T00:00:00Z","response":"",$ollama_end}
)";
constexpr std::string_view kOllamaEnd =
    R"("done_reason":"stop","done":true,"total_duration":30000000,"load_duration":10000000,)"
    R"("prompt_eval_count":$input,"prompt_eval_duration":10000000,"eval_count":$output,"eval_duration":10000000)";
constexpr std::string_view kOllamaEmbedded =
    R"({"model":$model,"embeddings":[[0.5,-0.25,0.125]],"total_duration":30000000,"prompt_eval_count":$input})";
constexpr std::string_view kOllamaTags = R"({"models":[{"name":"llama3","model":"llama3","size":1}]})";
constexpr std::string_view kLines = "application/x-ndjson";

constexpr std::string_view kPlain = R"({"text":$text})";
constexpr std::string_view kPlainDelta = "data: $delta\n\n";

constexpr Endpoint kEndpoints[] = {
    {"POST", "/chat/completions", Streams::IfBodySays, kChat, kChatBegin, kChatDelta, kChatFinish, &kOpenai},
    {"POST",
     "/responses",
     Streams::IfBodySays,
     kResponse,
     kResponseBegin,
     kResponseDelta,
     kResponseFinish,
     &kOpenaiResponses},
    {"POST", "/fim/completions", Streams::IfBodySays, kChat, kChatBegin, kChatDelta, kChatFinish, &kOpenai},
    {"POST", "/agents/completions", Streams::IfBodySays, kChat, kChatBegin, kChatDelta, kChatFinish, &kOpenai},
    {"POST", "/api/embeddings", Streams::Never, R"({"embedding":[0.5,-0.25,0.125]})", "", kPlainDelta, "", &kOllama},
    {"POST", "/embeddings", Streams::Never, kEmbeddings, "", kPlainDelta, "", &kOpenai},
    {"POST", "/moderations", Streams::Never, kModerations, "", kPlainDelta, "", &kOpenai},
    {"GET", "/models", Streams::Never, kModels, "", kPlainDelta, "", &kOpenai},
    {"POST", "/messages", Streams::IfBodySays, kMessage, kMessageBegin, kMessageDelta, kMessageFinish, &kAnthropic},
    {"POST",
     "/messages/count_tokens",
     Streams::Never,
     R"({"input_tokens":$input})",
     "",
     kPlainDelta,
     "",
     &kAnthropic},
    {"POST", ":generateContent", Streams::Never, kGenerated, "", kGeneratedDelta, kGeneratedFinish, &kGemini},
    {"POST",
     ":streamGenerateContent",
     Streams::IfQuerySays,
     kGeneratedAsArray,
     "",
     kGeneratedDelta,
     kGeneratedFinish,
     &kGemini},
    {"POST", ":countTokens", Streams::Never, R"({"totalTokens":$input})", "", kPlainDelta, "", &kGemini},
    {"POST", ":embedContent", Streams::Never, kContentEmbedded, "", kPlainDelta, "", &kGemini},
    {"POST", ":batchEmbedContents", Streams::Never, kContentsEmbedded, "", kPlainDelta, "", &kGemini},
    {"POST", "/v2/chat", Streams::IfBodySays, kCohereChat, kCohereBegin, kCohereDelta, kCohereFinish, &kCohere},
    {"POST", "/v2/embed", Streams::Never, kCohereEmbedded, "", kPlainDelta, "", &kCohere},
    {"POST", "/v1/embed", Streams::Never, kCohere1Embedded, "", kPlainDelta, "", &kCohere},
    {"POST", "/rerank", Streams::Never, kCohereReranked, "", kPlainDelta, "", &kCohere},
    {"POST",
     "/v1/chat",
     Streams::IfBodySays,
     kCohere1Chat,
     kCohere1Begin,
     kCohere1Delta,
     kCohere1Finish,
     &kCohere1,
     "application/stream+json"},
    {"POST",
     "/api/chat",
     Streams::UnlessBodySays,
     kOllamaChat,
     "",
     kOllamaChatDelta,
     kOllamaChatFinish,
     &kOllama,
     kLines},
    {"POST",
     "/api/generate",
     Streams::UnlessBodySays,
     kOllamaGenerated,
     "",
     kOllamaGeneratedDelta,
     kOllamaGeneratedFinish,
     &kOllama,
     kLines},
    {"POST", "/api/embed", Streams::Never, kOllamaEmbedded, "", kPlainDelta, "", &kOllama},
    {"GET", "/api/tags", Streams::Never, kOllamaTags, "", kPlainDelta, "", &kOllama},
    {"", "", Streams::IfBodySays, kPlain, "", kPlainDelta, "", &kOpenai},
};

// What each dialect calls an error.
struct ErrorRow {
  int status;
  std::string_view openai_type, openai_code, anthropic_type, gemini_status;
};
constexpr ErrorRow kErrors[] = {
    {400, "invalid_request_error", "invalid_value", "invalid_request_error", "INVALID_ARGUMENT"},
    {401, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED"},
    {402, "insufficient_quota", "insufficient_quota", "billing_error", "FAILED_PRECONDITION"},
    {403, "invalid_request_error", "unsupported_country_region_territory", "permission_error", "PERMISSION_DENIED"},
    {404, "invalid_request_error", "model_not_found", "not_found_error", "NOT_FOUND"},
    {409, "invalid_request_error", "conflict", "conflict_error", "ABORTED"},
    {413, "invalid_request_error", "request_too_large", "request_too_large", "INVALID_ARGUMENT"},
    {429, "requests", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"},
    {500, "server_error", "server_error", "api_error", "INTERNAL"},
    {503, "service_unavailable_error", "server_is_overloaded", "api_error", "UNAVAILABLE"},
    {504, "server_error", "timeout", "timeout_error", "DEADLINE_EXCEEDED"},
    {529, "service_unavailable_error", "server_is_overloaded", "overloaded_error", "UNAVAILABLE"},
};
const ErrorRow& error_row(int status) {
  const auto find = [](int wanted) {
    return std::find_if(
        std::begin(kErrors), std::end(kErrors), [&](const ErrorRow& row) { return row.status == wanted; });
  };
  const auto* exact = find(status);
  return exact != std::end(kErrors) ? *exact : *find(status < 500 ? 400 : 500);
}

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string twelve_digits(std::uint64_t number) {
  auto digits = std::to_string(number);
  return std::string(digits.size() < 12 ? 12 - digits.size() : 0, '0') + digits;
}

struct Word {
  std::string_view name;
  std::string (*say)(Ask&);
};
constexpr Word kWords[] = {
    {"id", [](Ask& ask) { return twelve_digits(ask.id); }},
    {"model", [](Ask& ask) { return json_text(ask.model); }},
    {"text", [](Ask& ask) { return json_text(ask.text); }},
    {"delta", [](Ask& ask) { return json_text(ask.delta); }},
    {"input", [](Ask& ask) { return std::to_string(ask.input_tokens); }},
    {"output", [](Ask& ask) { return std::to_string(ask.output_tokens); }},
    {"total", [](Ask& ask) { return std::to_string(ask.input_tokens + ask.output_tokens); }},
    {"seq", [](Ask& ask) { return std::to_string(ask.sequence++); }},
    {"no_usage_yet", [](Ask& ask) { return std::string{ask.include_usage ? R"(,"usage":null)" : ""}; }},
    {"last_usage",
     [](Ask& ask) {
       // Mistral's models tell it without being asked, in the chunk that has the finish reason.
       if (ask.include_usage || !ask.model.contains("stral")) return render("$no_usage_yet", ask);
       return render(R"(,"usage":$chat_usage)", ask);
     }},
    {"embedding", [](Ask& ask) { return std::string{ask.base64 ? R"("AAAAPwAAgL4AAAA+")" : "[0.5,-0.25,0.125]"}; }},
    {"chat_usage", [](Ask& ask) { return render(kChatUsage, ask); }},
    {"usage_chunk_if_asked",
     [](Ask& ask) { return ask.include_usage ? render(kChatUsageChunk, ask) : std::string{}; }},
    {"begun_response", [](Ask& ask) { return render(kResponseBegun, ask); }},
    {"whole_response", [](Ask& ask) { return render(kResponse, ask); }},
    {"gemini_usage", [](Ask& ask) { return render(kGeminiUsage, ask); }},
    {"cohere_usage", [](Ask& ask) { return render(kCohereUsage, ask); }},
    {"cohere1_chat", [](Ask& ask) { return render(kCohere1Chat, ask); }},
    {"ollama_end", [](Ask& ask) { return render(kOllamaEnd, ask); }},
    {"status", [](Ask& ask) { return std::to_string(ask.status); }},
    {"message", [](Ask& ask) { return json_text("The fake provider says " + std::to_string(ask.status) + "."); }},
    {"openai_type", [](Ask& ask) { return std::string{error_row(ask.status).openai_type}; }},
    {"openai_code", [](Ask& ask) { return std::string{error_row(ask.status).openai_code}; }},
    {"anthropic_type", [](Ask& ask) { return std::string{error_row(ask.status).anthropic_type}; }},
    {"gemini_status", [](Ask& ask) { return std::string{error_row(ask.status).gemini_status}; }},
};

// A prompt of some MB must not be parsed only to find these few members. Quotes within JSON strings are
// escaped, so `"name"` with a colon behind it is always a member's name.
std::string_view member(std::string_view body, std::string_view name) {
  const std::string quoted = '"' + std::string{name} + '"';
  for (auto at = body.find(quoted); at != std::string_view::npos; at = body.find(quoted, at + 1)) {
    auto rest = body.substr(at + quoted.size());
    const auto skip = [&rest] { rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size())); };
    skip();
    if (!rest.starts_with(':')) continue;
    rest.remove_prefix(1);
    skip();
    return rest;
  }
  return {};
}
std::string text_member(std::string_view body, std::string_view name) {
  const auto value = member(body, name);
  if (!value.starts_with('"')) return {};
  return std::string{value.substr(1, value.find('"', 1) - 1)};
}

}  // namespace

const Endpoint& endpoint_for(const Request& request) {
  return *std::find_if(std::begin(kEndpoints), std::prev(std::end(kEndpoints)), [&](const Endpoint& row) {
    return row.method == request.method && request.path().ends_with(row.path);
  });
}

bool is_known(const Endpoint& endpoint) { return !endpoint.path.empty(); }

bool wants_stream(const Endpoint& endpoint, const Request& request) {
  switch (endpoint.streams) {
    case Streams::IfBodySays:
      return member(request.body, "stream").starts_with("true");
    case Streams::UnlessBodySays:
      return !member(request.body, "stream").starts_with("false");
    case Streams::IfQuerySays:
      return request.target.find("alt=sse") != std::string::npos;
    case Streams::Never:
      break;
  }
  return false;
}

Ask ask_from(const Request& request, std::uint64_t id) {
  Ask ask;
  ask.id = id;
  ask.model = text_member(request.body, "model");
  // Gemini names the model in the path.
  constexpr std::string_view kModelsPath = "/models/";
  const auto path = request.path();
  const auto at = path.find(kModelsPath);
  if (ask.model.empty() && at != std::string_view::npos) {
    const auto name = path.substr(at + kModelsPath.size());
    ask.model = name.substr(0, name.find(':'));
  }
  if (ask.model.empty()) ask.model = "fake-1";
  ask.include_usage = member(request.body, "include_usage").starts_with("true");
  ask.base64 = text_member(request.body, "encoding_format") == "base64";
  return ask;
}

std::string render(std::string_view text, Ask& ask) {
  std::string done;
  done.reserve(text.size() + 128);
  for (;;) {
    const auto mark = text.find('$');
    done += text.substr(0, mark);
    if (mark == std::string_view::npos) return done;
    text.remove_prefix(mark + 1);
    const auto name = text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_1"));
    const auto* word =
        std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& row) { return row.name == name; });
    if (word == std::end(kWords)) {
      done += '$';
      continue;
    }
    done += word->say(ask);
    text.remove_prefix(name.size());
    if (text.starts_with(';')) text.remove_prefix(1);  // Where a word must be told from the text behind it.
  }
}

}  // namespace fake_provider
