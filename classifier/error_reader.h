#pragma once
// What does an error answer say? One reader for every form in which providers and what stands before them say it:
// an object, a string or nothing under `error`, in an array, in a JSON string, in a choice, in `response.error`.

#include <string>
#include <string_view>

#include "classifier/headers.h"
#include "classifier/rules.h"

namespace classifier {

/// `status` is the answer's; a body's own code counts in its place for 2xx and 5xx, and where it only makes a 4xx
/// another lasting one. For an error inside a 2xx that names no status, the facts' status is 0.
[[nodiscard]] ErrorFacts read_error(int status, const Headers* headers, std::string_view body);

/// What an error says in its own words, for telling it on in another form.
struct SaidError {
  int status = 0;         // 0 if it names none.
  std::string message{};  // Never empty.
  std::string type{};
  std::string code{};
};
[[nodiscard]] SaidError said_error(std::string_view body);

/// The provider's own words as rules look at them: lower case, cut at 4 KiB, and without what it quotes where a
/// quotation has a blank in it: that is a piece of somebody's prompt and may contain any word.
[[nodiscard]] std::string own_words(std::string_view text);

/// "… Limit 30000, Requested 36278": no waiting helps that.
[[nodiscard]] bool asks_more_than_limit(std::string_view lower_text);

}  // namespace classifier
