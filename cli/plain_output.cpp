#include "cli/plain_output.h"

#include <cstddef>
#include <utility>

#include "gateway/plain_text.h"

namespace cli {

PlainOutput::PlainOutput(std::ostream& to, std::string also)
    : std::ostream(static_cast<std::streambuf*>(this)), to_(to), let_through_("\n\t" + std::move(also)) {}

PlainOutput::~PlainOutput() { pass({}, true); }

int PlainOutput::overflow(int c) {
  using traits_type = std::char_traits<char>;
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char letter = traits_type::to_char_type(c);
  return pass({&letter, 1}, false) ? c : traits_type::eof();
}

std::streamsize PlainOutput::xsputn(const char* text, std::streamsize size) {
  return pass({text, static_cast<std::size_t>(size)}, false) ? size : 0;
}

int PlainOutput::sync() { return pass({}, true) && to_.flush() ? 0 : -1; }

bool PlainOutput::pass(std::string_view text, bool last) {
  begun_ += text;
  std::string harmless;
  const std::size_t used = gateway::append_harmless(harmless, begun_, let_through_, last);
  begun_.erase(0, used);
  return harmless.empty() || to_.write(harmless.data(), static_cast<std::streamsize>(harmless.size()));
}

std::ostream& as_is(std::ostream& stream) {
  auto* const plain = dynamic_cast<PlainOutput*>(&stream);
  return plain ? plain->behind() : stream;
}

}  // namespace cli
