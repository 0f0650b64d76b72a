#pragma once
// What do bytes in base64 say?

#include <string>
#include <string_view>

namespace classifier {

/// Characters of no alphabet (line ends, padding) are passed over; both alphabets are read.
[[nodiscard]] std::string from_base64(std::string_view text);

}  // namespace classifier
