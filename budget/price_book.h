#pragma once
// Which price is meant by a model's name? One rule (docs/prices.md), which says how it came to its answer and never
// guesses: what is not found by it, or found twice, is not found.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "budget/price.h"
#include "budget/price_file.h"

namespace budget {

/// One word for each provider: "bedrock_converse" → "bedrock", "vertex_ai-language-models" → "vertex". A word that is
/// not known stays as it is.
[[nodiscard]] std::string_view canonical_provider(std::string_view word);
/// Whose prices hold at an upstream: by its URL's host ("api.groq.com"), else by its name if that is a provider's;
/// else empty: any provider's model may be there.
[[nodiscard]] std::string_view provider_of(std::string_view host, std::string_view upstream);

/// In which region an upstream serves, where its host tells and prices differ ("eu.api.openai.com": "eu"); else
/// empty.
[[nodiscard]] std::string_view region_of(std::string_view host);

struct Sought {
  std::string_view provider{};  // From provider_of().
  std::string_view model{};     // As named in the answer; where it names none, in the request.
  std::chrono::sys_days day{};  // UTC.
};

enum class Miss : std::uint8_t { No, Unknown, Ambiguous, NotYet };
[[nodiscard]] std::string_view name_of(Miss miss);  // "unknown", "ambiguous", "not_yet"; "" if found.

/// What had to be done to the name, in the order in which it is tried.
struct Rewritten {
  bool by_provider = false;  // Found among the provider's own models, not by its name alone.
  bool unwrapped = false;    // Without "models/", "accounts/fireworks/models/", an ARN's front, …
  bool vendor = false;       // Without "openai/", among that vendor's models.
  bool region = false;       // Without Bedrock's "us.".
  bool version = false;      // Without Bedrock's "-v1:0".
  bool date = false;         // Without "-2025-08-07", "@20250929", "-latest".
  bool operator==(const Rewritten&) const = default;
};
/// "exact", "provider", "provider, without date", …
[[nodiscard]] std::string text_of(const Rewritten& how);

struct Found {
  const Price* price = nullptr;       // Null: see miss. Lives as long as the book.
  const PriceTable* table = nullptr;  // Whose it is.
  Miss miss = Miss::Unknown;
  Rewritten how{};
  std::string name{};    // Under which it was found, or the last that was tried.
  std::string region{};  // "us" of a Bedrock id from which it was taken; a modifier if the price has a factor for it.
};

class PriceBook {
 public:
  /// Later tables beat earlier ones: each is asked with all steps before the one under it.
  explicit PriceBook(std::vector<PriceTable> tables);
  PriceBook(PriceBook&&) noexcept = default;  // Prices stay where they are.
  PriceBook& operator=(PriceBook&&) noexcept = default;
  PriceBook(const PriceBook&) = delete;
  PriceBook& operator=(const PriceBook&) = delete;
  ~PriceBook() = default;

  [[nodiscard]] Found find(const Sought& sought) const;
  [[nodiscard]] std::span<const PriceTable> tables() const { return tables_; }

 private:
  struct Name {
    std::string_view provider{};  // Empty: the whole name.
    std::string_view name{};
    bool prefixed = false;  // "groq/…" was written for groq, and beats what only has its provider said.
    const Price* price = nullptr;
    [[nodiscard]] std::pair<std::string_view, std::string_view> key() const { return {provider, name}; }
  };
  [[nodiscard]] Found find_in(std::size_t table, const Sought& sought) const;
  [[nodiscard]] static std::vector<Name> names_of(const PriceTable& table);
  [[nodiscard]] static Miss pick(std::span<const Name> names, std::chrono::sys_days day, const Price*& price);

  std::vector<PriceTable> tables_;
  std::vector<std::vector<Name>> names_{};  // Of each table, sorted by key.
};

/// The shipped table alone.
[[nodiscard]] PriceTable shipped_prices();

/// The cost at what was found: as in price.h, with the region of the model's name, if it has one, for that of the
/// terms.
[[nodiscard]] Cost cost_of(const Found& found, const Terms& terms,
                           const std::optional<classifier::TokenCounts>& tokens, const Billed& billed = {});

}  // namespace budget
