#include "classifier/secret_forms.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace classifier {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::vector<std::string> base64_of_any_with(std::string_view secret) {
  std::vector<std::string> forms;
  if (secret.size() < kBase64SecretMin) return forms;
  // Behind one byte the first four bits belong to a letter that it has a part in, behind two the first two.
  for (const unsigned others : {0U, 4U, 2U}) {
    std::string form;
    std::uint32_t bits = 0;
    unsigned held = 0;
    unsigned to_skip = others;
    for (const char c : secret) {
      bits = (bits << 8U | static_cast<unsigned char>(c)) & 0xFFFFU;
      held += 8 - std::exchange(to_skip, 0U);
      for (; held >= 6; held -= 6) form += kAlphabet[bits >> (held - 6) & 0x3FU];
    }
    std::string for_urls = form;
    std::ranges::replace(for_urls, '+', '-');
    std::ranges::replace(for_urls, '/', '_');
    if (for_urls != form) forms.push_back(std::move(for_urls));
    forms.push_back(std::move(form));
  }
  return forms;
}

}  // namespace classifier
