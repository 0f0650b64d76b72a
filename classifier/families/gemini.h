#pragma once
// How are answers of Google's generateContent and its neighbours read?

#include "classifier/reading.h"

namespace classifier::families {

extern const Family kGemini;

}  // namespace classifier::families
