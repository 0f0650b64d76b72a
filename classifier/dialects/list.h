#pragma once
// Which dialects are there? One line each; dialects.cpp puts them in order.

#include "classifier/dialect.h"

namespace classifier::dialect {

[[nodiscard]] const Dialect& openai();
[[nodiscard]] const Dialect& anthropic();
[[nodiscard]] const Dialect& gemini();
[[nodiscard]] const Dialect& mistral();
[[nodiscard]] const Dialect& cohere();
[[nodiscard]] const Dialect& ollama();
[[nodiscard]] const Dialect& bedrock();
[[nodiscard]] const Dialect& azure();
[[nodiscard]] const Dialect& vertex();
[[nodiscard]] const Dialect& groq();
[[nodiscard]] const Dialect& deepseek();
[[nodiscard]] const Dialect& xai();
[[nodiscard]] const Dialect& together();
[[nodiscard]] const Dialect& fireworks();
[[nodiscard]] const Dialect& openrouter();
[[nodiscard]] const Dialect& vllm();
[[nodiscard]] const Dialect& llamacpp();

}  // namespace classifier::dialect
