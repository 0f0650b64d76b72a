#include <array>

#include "classifier/dialect.h"
#include "classifier/dialects/list.h"

namespace classifier {

namespace {

constexpr std::array<std::string_view, 9> kOperationNames = {"chat",
                                                             "completions",
                                                             "responses",
                                                             "messages",
                                                             "generate_content",
                                                             "embeddings",
                                                             "count_tokens",
                                                             "moderation",
                                                             "other"};

}  // namespace

std::string_view name_of(Operation operation) { return kOperationNames[static_cast<std::size_t>(operation)]; }

std::span<const Dialect* const> dialects() {
  static const std::array all = {&dialect::openai(),
                                 &dialect::anthropic(),
                                 &dialect::gemini(),
                                 &dialect::mistral(),
                                 &dialect::cohere(),
                                 &dialect::ollama(),
                                 &dialect::bedrock(),
                                 &dialect::azure(),
                                 &dialect::vertex(),
                                 &dialect::groq(),
                                 &dialect::deepseek(),
                                 &dialect::xai(),
                                 &dialect::together(),
                                 &dialect::fireworks(),
                                 &dialect::openrouter(),
                                 &dialect::vllm(),
                                 &dialect::llamacpp()};
  return all;
}

const Dialect* find_dialect(std::string_view name) {
  for (const Dialect* const spoken : dialects()) {
    if (spoken->name() == name) return spoken;
  }
  return nullptr;
}

}  // namespace classifier
