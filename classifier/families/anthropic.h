#pragma once
// How are answers of Anthropic's Messages API read?

#include "classifier/reading.h"

namespace classifier::families {

extern const Family kAnthropic;

}  // namespace classifier::families
