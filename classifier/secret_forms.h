#pragma once
// How is a secret recognised in base64?

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace classifier {

/// Shorter ones are in long texts by chance.
inline constexpr std::size_t kBase64SecretMin = 12;
/// The base64 of any text that has the secret in it has one of these in it: for each of three places within a group
/// of bytes the letters that say nothing but the secret, in both alphabets. None of a short one.
[[nodiscard]] std::vector<std::string> base64_of_any_with(std::string_view secret);

}  // namespace classifier
