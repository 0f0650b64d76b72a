#pragma once
// What are the quantities besides tokens called, in rows and in the log?

#include <cstdint>
#include <string_view>

#include "classifier/usage.h"

namespace ledger {

struct BilledName {
  std::string_view name;
  std::int64_t classifier::Billed::*member;
};
inline constexpr BilledName kBilledNames[] = {
    {"audio_input", &classifier::Billed::audio_input},
    {"cached_audio_input", &classifier::Billed::cached_audio_input},
    {"image_input", &classifier::Billed::image_input},
    {"cached_image_input", &classifier::Billed::cached_image_input},
    {"image_input_apart", &classifier::Billed::image_input_apart},
    {"audio_output", &classifier::Billed::audio_output},
    {"image_output", &classifier::Billed::image_output},
    {"input_ms", &classifier::Billed::input_ms},
    {"output_ms", &classifier::Billed::output_ms},
    {"input_images", &classifier::Billed::input_images},
    {"output_images", &classifier::Billed::output_images},
    {"input_characters", &classifier::Billed::input_characters},
    {"output_characters", &classifier::Billed::output_characters},
    {"queries", &classifier::Billed::queries},
    {"pages", &classifier::Billed::pages},
    {"web_searches", &classifier::Billed::web_searches},
};

}  // namespace ledger
