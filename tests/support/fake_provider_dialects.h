#pragma once
// What would a plausible provider answer? One row an endpoint; scripts only say what is different.

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/fake_provider_http.h"

namespace fake_provider {

/// What an answer is made of, whatever the dialect.
struct Ask {
  std::uint64_t id = 0;
  std::string model{};
  std::string text{};  // All of it.
  std::string delta{};
  std::uint64_t input_tokens = 9;
  std::uint64_t output_tokens = 2;
  bool include_usage = false;
  bool base64 = false;  // Of embeddings.
  int status = 200;
  std::uint64_t sequence = 0;  // Of the next event, where a dialect numbers them.
};

enum class Streams : std::uint8_t { Never, IfBodySays, UnlessBodySays, IfQuerySays };

/// How a dialect fails, wherever it does.
struct Failure {
  std::string_view body;
  std::string_view event;
  std::string_view request_id_header;
};

/// Templates: $model, $text, … stand for what the ask says (see the table in the .cpp).
struct Endpoint {
  std::string_view method;
  std::string_view path;  // The end of the request's path, so base URLs may have prefixes.
  Streams streams;
  std::string_view unary;
  // A stream is begin, one delta a piece of text, finish.
  std::string_view begin, delta, finish;
  const Failure* failure;
  std::string_view stream_type = "text/event-stream; charset=utf-8";
};

/// The last row answers whatever no other row does: with 404, unless a script knows better.
[[nodiscard]] const Endpoint& endpoint_for(const Request& request);
[[nodiscard]] bool is_known(const Endpoint& endpoint);
[[nodiscard]] bool wants_stream(const Endpoint& endpoint, const Request& request);
[[nodiscard]] Ask ask_from(const Request& request, std::uint64_t id);
/// Counts ask.sequence on.
[[nodiscard]] std::string render(std::string_view text, Ask& ask);

}  // namespace fake_provider
