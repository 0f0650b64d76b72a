#pragma once
// Which characters does a terminal obey, or turn the direction of writing, and how are they said harmlessly?

#include <cstddef>
#include <string>
#include <string_view>

namespace gateway {

struct Character {
  char32_t code = 0;
  std::size_t length = 0;  // In bytes; 0: no UTF-8 stands here.
};
/// The first one. Of UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] Character character_at(std::string_view text);
/// Controls, line and paragraph separators, what turns the direction of writing, and what is no character.
[[nodiscard]] bool is_treacherous(char32_t code);
/// \uXXXX
void append_escape(std::string& out, char32_t code);

/// Text of many lines: only what is treacherous is escaped, and of ASCII not what `let_through` names, nor "\r\n";
/// the escape character passes in a sequence that sets a colour or clears a line. Where more bytes may follow (it is
/// not the `end`), what they could complete is left. Returns how many bytes were used.
std::size_t append_harmless(std::string& out, std::string_view text, std::string_view let_through, bool end);

}  // namespace gateway
