#pragma once
// How are answers of OpenAI's API and of all that imitates it read: chat, completions, responses, embeddings, images?

#include "classifier/reading.h"

namespace classifier::families {

extern const Family kOpenAi;

}  // namespace classifier::families
