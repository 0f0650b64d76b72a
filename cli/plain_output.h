#pragma once
// How does nothing that somebody else wrote move a terminal's cursor or turn the direction of writing?

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace cli {

/// What goes through it arrives as it is but for control characters (C1 ones, too), line separators, what turns the
/// direction, and bytes that are no UTF-8: those come out as \uXXXX, which JSON and quoted YAML read back. Line ends
/// and tabs are let through, and `also`.
class PlainOutput final : private std::streambuf, public std::ostream {
 public:
  PlainOutput(std::ostream& to, std::string also);
  ~PlainOutput() override;
  PlainOutput(const PlainOutput&) = delete;
  PlainOutput& operator=(const PlainOutput&) = delete;
  [[nodiscard]] std::ostream& behind() { return to_; }

 private:
  int overflow(int c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;
  bool pass(std::string_view text, bool last);

  std::ostream& to_;
  std::string let_through_;
  std::string begun_{};  // Of a character whose other bytes are still to come.
};

/// The stream itself, for what is somebody's file or a table for programs: that stays byte for byte.
[[nodiscard]] std::ostream& as_is(std::ostream& stream);

}  // namespace cli
