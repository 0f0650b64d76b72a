#include "gateway/plain_text.h"

#include <gtest/gtest.h>

#include <string>

namespace plain_text_test {

TEST(PlainText, text_of_many_lines_keeps_all_but_what_a_terminal_obeys) {
  struct Case {
    const char* name;
    std::string text;
    std::string_view let_through;
    std::string want;
  };
  const Case cases[] = {
      {"lines and tabs", "a\tb\n\"c\\\"\n", "\n\t", "a\tb\n\"c\\\"\n"},
      {"a table's line end", "a,b\r\n", "\n", "a,b\r\n"},
      {"a line over the last one", "paid\rfree", "\n", "paid\\u000dfree"},
      {"a line over the last one, meant so", "1 of 2\r", "\n\r", "1 of 2\r"},
      {"the direction turned", "gpt\u202e5-tpg\u2066\u200f", "\n", "gpt\\u202e5-tpg\\u2066\\u200f"},
      {"C1 controls and a mark", "\u009b31m\u0085\ufeff", "\n", "\\u009b31m\\u0085\\ufeff"},
      {"other letters", "Größe 東京 😀 e\u0301", "\n", "Größe 東京 😀 e\u0301"},
      {"no UTF-8", "a\xff\x80z", "\n", "a\\ufffd\\ufffdz"},
      {"half a character", "a\xe2\x80", "\n", "a\\ufffd\\ufffd"},
      {"colours where there are none", "\x1b[31mred\x1b[0m", "\n", "\\u001b[31mred\\u001b[0m"},
      {"colours", "\x1b[31mred\x1b[0m\x1b[K", "\n\x1b", "\x1b[31mred\x1b[0m\x1b[K"},
      {"more than colours", "\x1b[2J\x1b]0;x\x07\x1b", "\n\x1b", "\\u001b[2J\\u001b]0;x\\u0007\\u001b"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    // In two pieces, wherever the first one ends.
    for (std::size_t cut = 0; cut <= c.text.size(); ++cut) {
      std::string out;
      std::string first = c.text.substr(0, cut);
      first.erase(0, gateway::append_harmless(out, first, c.let_through, false));
      const std::string rest = first + c.text.substr(cut);
      EXPECT_EQ(gateway::append_harmless(out, rest, c.let_through, true), rest.size());
      EXPECT_EQ(out, c.want) << cut;
    }
  }
}

}  // namespace plain_text_test
