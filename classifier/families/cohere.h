#pragma once
// How are answers of Cohere's API read: chat, embed, rerank, in both of its versions?

#include "classifier/reading.h"

namespace classifier::families {

extern const Family kCohere;
/// Of the first version, whose streams are lines of JSON.
extern const Family kCohere1;

}  // namespace classifier::families
