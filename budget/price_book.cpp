#include "budget/price_book.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace budget {
namespace {

struct Synonym {
  std::string_view word;
  std::string_view provider;
};
// Left: as written in price files, hosts' names and before a slash in model names.
constexpr Synonym kSynonyms[] = {
    {"text-completion-openai", "openai"},
    {"azure_text", "azure"},
    {"bedrock_converse", "bedrock"},
    {"vertex_ai", "vertex"},
    {"fireworks_ai", "fireworks"},
    {"together_ai", "together"},
    {"cohere_chat", "cohere"},
};
constexpr std::string_view kFamilies[] = {"vertex_ai-", "fireworks_ai-"};  // "vertex_ai-language-models"

constexpr std::string_view kProviders[] = {
    "openai",
    "anthropic",
    "gemini",
    "mistral",
    "groq",
    "deepseek",
    "xai",
    "together",
    "fireworks",
    "openrouter",
    "cohere",
    "azure",
    "vertex",
    "bedrock",
};

struct HostEnd {
  std::string_view end;  // The host itself, or what follows a dot (or, at Google, a hyphen).
  std::string_view provider;
};
constexpr HostEnd kHosts[] = {
    {"api.openai.com", "openai"},
    {"api.anthropic.com", "anthropic"},
    {"generativelanguage.googleapis.com", "gemini"},
    {"aiplatform.googleapis.com", "vertex"},
    {"api.mistral.ai", "mistral"},
    {"api.groq.com", "groq"},
    {"api.deepseek.com", "deepseek"},
    {"api.x.ai", "xai"},
    {"api.together.xyz", "together"},
    {"api.together.ai", "together"},
    {"api.fireworks.ai", "fireworks"},
    {"openrouter.ai", "openrouter"},
    {"api.cohere.com", "cohere"},
    {"api.cohere.ai", "cohere"},
    {"openai.azure.com", "azure"},
    {"cognitiveservices.azure.com", "azure"},
};

struct Vendor {
  std::string_view prefix;
  std::string_view provider;
};
constexpr Vendor kVendors[] = {
    {"openai", "openai"},
    {"anthropic", "anthropic"},
    {"google", "gemini"},
    {"mistralai", "mistral"},
    {"mistral", "mistral"},
    {"x-ai", "xai"},
    {"xai", "xai"},
    {"deepseek", "deepseek"},
    {"deepseek-ai", "deepseek"},
    {"cohere", "cohere"},
};

struct Seller {
  std::string_view seller;
  std::string_view maker;
};
// Who sells whose models at the maker's list price. Models with open weights cost what their host takes.
constexpr Seller kSellers[] = {
    {"azure", "openai"},
    {"vertex", "gemini"},
    {"vertex", "anthropic"},
    {"vertex", "mistral"},
    {"openrouter", "openai"},
    {"openrouter", "anthropic"},
    {"openrouter", "gemini"},
    {"openrouter", "xai"},
    {"openrouter", "cohere"},
};

// How a name is wrapped without meaning another model. The longest first where one begins another.
constexpr std::string_view kWrappings[] = {
    "accounts/fireworks/models/",
    "publishers/google/models/",
    "publishers/anthropic/models/",
    "publishers/mistralai/models/",
    "models/",
};

constexpr std::string_view kRegions[] = {"us", "eu", "apac", "global", "jp", "au", "ca", "us-gov"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool sells(std::string_view seller, std::string_view maker) {
  return seller == maker ||
         std::ranges::any_of(kSellers, [&](const Seller& one) { return one.seller == seller && one.maker == maker; });
}

/// "groq/llama" of provider groq → "llama"; else the whole name.
std::string_view own_name(std::string_view name, std::string_view provider) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || canonical_provider(name.substr(0, slash)) != provider) return name;
  return name.substr(slash + 1);
}

std::string_view unwrapped(std::string_view name) {
  constexpr std::string_view kInProject = "projects/";  // Vertex: projects/P/locations/L/publishers/…
  constexpr std::string_view kArns[] = {":foundation-model/", ":inference-profile/"};
  if (name.starts_with("arn:")) {
    for (const std::string_view arn : kArns) {
      if (const std::size_t at = name.find(arn); at != std::string_view::npos) return name.substr(at + arn.size());
    }
    return name;
  }
  if (name.starts_with(kInProject)) {
    if (const std::size_t at = name.find("/publishers/"); at != std::string_view::npos) name = name.substr(at + 1);
  }
  for (const std::string_view wrapping : kWrappings) {
    if (name.starts_with(wrapping)) return name.substr(wrapping.size());
  }
  return name;
}

/// A name of Bedrock begins with its vendor and a dot: "anthropic.claude-…".
bool has_vendor_and_dot(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot != std::string_view::npos && dot > 0 &&
         std::ranges::all_of(name.substr(0, dot), [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c); }) &&
         name.substr(0, dot).find_first_not_of("0123456789") != std::string_view::npos;
}

std::string_view region_of(std::string_view name) {
  for (const std::string_view region : kRegions) {
    if (name.size() > region.size() && name.starts_with(region) && name[region.size()] == '.' &&
        has_vendor_and_dot(name.substr(region.size() + 1))) {
      return region;
    }
  }
  return {};
}

/// Without a "-v1", "-v1:0" at the end.
std::string_view without_version(std::string_view name) {
  std::string_view rest = name;
  const auto take_number = [&] {
    const std::size_t before = rest.size();
    while (!rest.empty() && is_digit(rest.back())) rest.remove_suffix(1);
    return rest.size() < before;
  };
  if (!take_number()) return name;
  if (rest.ends_with(':')) {
    rest.remove_suffix(1);
    if (!take_number()) return name;
  }
  return rest.ends_with("-v") && rest.size() > 2 ? rest.substr(0, rest.size() - 2) : name;
}

bool is_date(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (is_digit(c)) digits += c;
  }
  const bool form = text.size() == 8 || (text.size() == 10 && text[4] == '-' && text[7] == '-');
  if (!form || digits.size() != 8) return false;
  const int month = std::stoi(digits.substr(4, 2));
  const int day = std::stoi(digits.substr(6, 2));
  return digits.starts_with("20") && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

std::string_view without_date(std::string_view name) {
  for (const std::string_view word : {"-latest", "@latest", "@default"}) {
    if (name.size() > word.size() && name.ends_with(word)) return name.substr(0, name.size() - word.size());
  }
  for (const std::size_t length : {std::size_t{8}, std::size_t{10}}) {
    if (name.size() < length + 2) continue;
    const std::size_t at = name.size() - length;
    if ((name[at - 1] == '-' || name[at - 1] == '@') && is_date(name.substr(at))) return name.substr(0, at - 1);
  }
  return name;
}

struct Candidate {
  std::string_view provider;  // Among whose models; empty: by the whole name.
  std::string_view name;
  Rewritten how{};
  std::string_view region{};
};

/// All that may be tried for a name, least changed first. Each is tried among the provider's models, then by the name
/// alone; a vendor's name only among the vendor's models, and only where models are sold at the vendor's price.
std::vector<Candidate> candidates_of(const Sought& sought) {
  std::vector<Candidate> out;
  const auto add = [&](std::string_view name, const Rewritten& how, std::string_view region) {
    if (name.empty()) return;
    Candidate candidate{sought.provider, name, how, region};
    if (!sought.provider.empty()) {
      candidate.how.by_provider = true;
      out.push_back(candidate);
      candidate.how.by_provider = false;
    }
    candidate.provider = {};
    out.push_back(candidate);
  };
  const auto add_vendor = [&](std::string_view name, Rewritten how) {
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos) return;
    const auto* vendor = std::ranges::find(kVendors, name.substr(0, slash), &Vendor::prefix);
    if (vendor == std::end(kVendors)) return;
    if (!sought.provider.empty() && !sells(sought.provider, vendor->provider)) return;
    how.vendor = true;
    out.push_back({vendor->provider, name.substr(slash + 1), how, {}});
  };

  Rewritten how;
  add(sought.model, how, {});
  const std::string_view name = unwrapped(sought.model);
  how.unwrapped = name != sought.model;
  if (how.unwrapped) add(name, how, {});
  add_vendor(name, how);

  if (const std::string_view region = region_of(name); !region.empty() || has_vendor_and_dot(name)) {
    const std::string_view placeless = region.empty() ? name : name.substr(region.size() + 1);
    const std::string_view versionless = without_version(placeless);
    how.region = !region.empty();
    if (how.region) add(placeless, how, region);
    how.version = versionless != placeless;
    if (how.version) add(versionless, how, region);
    const std::string_view dateless = without_date(versionless);
    how.date = dateless != versionless;
    if (how.date) add(dateless, how, region);
    return out;
  }
  const std::string_view dateless = without_date(name);
  how.date = dateless != name;
  if (how.date) {
    add(dateless, how, {});
    add_vendor(dateless, how);
  }
  return out;
}

bool same_price(const Price& a, const Price& b) { return a.tables == b.tables && a.factors == b.factors; }

}  // namespace

std::string_view canonical_provider(std::string_view word) {
  for (const std::string_view family : kFamilies) {
    if (word.starts_with(family)) word = word.substr(0, family.size() - 1);
  }
  const auto* found = std::ranges::find(kSynonyms, word, &Synonym::word);
  return found == std::end(kSynonyms) ? word : found->provider;
}

std::string_view provider_of(std::string_view host, std::string_view upstream) {
  for (const HostEnd& one : kHosts) {
    if (!host.ends_with(one.end)) continue;
    const std::string_view before = host.substr(0, host.size() - one.end.size());
    if (before.empty() || before.ends_with('.') || (one.provider == "vertex" && before.ends_with('-'))) {
      return one.provider;
    }
  }
  // bedrock-runtime.us-east-1.amazonaws.com, bedrock-runtime-fips.…
  if (host.starts_with("bedrock-runtime") && host.ends_with(".amazonaws.com")) return "bedrock";
  const auto* known = std::ranges::find(kProviders, upstream);
  return known == std::end(kProviders) ? std::string_view{} : *known;
}

std::string_view region_of(std::string_view host) {
  // OpenAI's data residency.
  for (const std::string_view region : {"us", "eu"}) {
    if (host.starts_with(region) && host.substr(region.size()) == ".api.openai.com") return region;
  }
  return {};
}

std::string_view name_of(Miss miss) {
  constexpr std::string_view kNames[] = {"", "unknown", "ambiguous", "not_yet"};
  return kNames[static_cast<std::size_t>(miss)];
}

std::string text_of(const Rewritten& how) {
  std::string text;
  const auto add = [&](bool is, std::string_view words) {
    if (is) text += (text.empty() ? "" : ", ") + std::string{words};
  };
  add(how.by_provider, "provider");
  add(how.unwrapped, "unwrapped");
  add(how.vendor, "vendor");
  add(how.region, "without region");
  add(how.version, "without version");
  add(how.date, "without date");
  return text.empty() ? "exact" : text;
}

PriceBook::PriceBook(std::vector<PriceTable> tables) : tables_(std::move(tables)) {
  for (const PriceTable& table : tables_) names_.push_back(names_of(table));
}

std::vector<PriceBook::Name> PriceBook::names_of(const PriceTable& table) {
  std::vector<Name> names;
  const auto add = [&](std::string_view name, const Price& price) {
    names.push_back({{}, name, false, &price});
    if (price.provider.empty()) return;
    const std::string_view own = own_name(name, price.provider);
    names.push_back({price.provider, own, own.size() != name.size(), &price});
  };
  for (const Price& price : table.prices) {
    add(price.model, price);
    for (const std::string& alias : price.aliases) add(alias, price);
  }
  std::ranges::stable_sort(names, {}, &Name::key);
  names.shrink_to_fit();
  return names;
}

/// Of those that claim one name: the one model that does, at its latest date that has come.
Miss PriceBook::pick(std::span<const Name> names, std::chrono::sys_days day, const Price*& price) {
  const bool prefixed = std::ranges::any_of(names, &Name::prefixed);
  const Price* first = nullptr;
  const Price* latest = nullptr;
  for (const Name& one : names) {
    if (one.prefixed != prefixed) continue;
    if (!first) first = one.price;
    if (first->model != one.price->model) {
      if (!same_price(*first, *one.price)) return Miss::Ambiguous;
      continue;
    }
    if (one.price->from && *one.price->from > day) continue;
    if (!latest || (one.price->from && (!latest->from || *latest->from < *one.price->from))) latest = one.price;
  }
  price = latest;
  return latest ? Miss::No : Miss::NotYet;
}

Found PriceBook::find_in(std::size_t table, const Sought& sought) const {
  Found found;
  found.name = sought.model;
  for (const Candidate& candidate : candidates_of(sought)) {
    const auto claims =
        std::ranges::equal_range(names_[table], std::pair{candidate.provider, candidate.name}, {}, &Name::key);
    if (claims.empty()) continue;
    const Price* price = nullptr;
    const Miss miss = pick(claims, sought.day, price);
    if (price && candidate.provider.empty() && !sought.provider.empty() && !price->provider.empty() &&
        !sells(sought.provider, price->provider)) {
      continue;  // The same name at another provider has another price.
    }
    found.name = candidate.name;
    found.region = candidate.region;
    found.how = candidate.how;
    found.miss = miss;
    if (miss == Miss::NotYet) continue;
    found.price = price;
    found.table = price ? &tables_[table] : nullptr;
    return found;
  }
  return found;
}

Found PriceBook::find(const Sought& sought) const {
  Found missed;
  missed.name = sought.model;
  for (std::size_t i = tables_.size(); i-- > 0;) {
    Found found = find_in(i, sought);
    if (found.price || found.miss == Miss::Ambiguous) return found;
    if (found.miss != Miss::Unknown) missed = std::move(found);
  }
  return missed;
}

PriceTable shipped_prices() {
  PriceFile file = read_price_file(shipped_prices_text(), std::string{kShippedPrices});
  assert(file.usable());
  return std::move(file.table);
}

Cost cost_of(const Found& found, const Terms& terms, const std::optional<classifier::TokenCounts>& tokens,
             const Billed& billed) {
  Terms here = terms;
  if (!found.region.empty()) here.region = found.region;
  return cost_of(found.price, here, tokens, billed);
}

}  // namespace budget
