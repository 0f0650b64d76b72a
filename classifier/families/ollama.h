#pragma once
// How are answers of Ollama's native API read: chat, generate, embed?

#include "classifier/reading.h"

namespace classifier::families {

extern const Family kOllama;

}  // namespace classifier::families
