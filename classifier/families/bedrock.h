#pragma once
// How are answers of AWS Bedrock read: Converse with one form for all models, InvokeModel with each model's own?

#include <string_view>

#include "classifier/reading.h"

namespace classifier::families {

extern const Family kConverse;
extern const Family kInvoke;

/// As what Bedrock would say that status: "ThrottlingException".
[[nodiscard]] std::string_view bedrock_error_type(int status);

/// What Bedrock counted, for models that do not tell it in their answers.
void read_bedrock_head(const Headers& head, Reading& into);

}  // namespace classifier::families
