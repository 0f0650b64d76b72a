#include "gateway/tenants.h"

#include <algorithm>
#include <charconv>

#include "gateway/config_values.h"
#include "gateway/memo_key.h"

namespace gateway {
namespace {

constexpr std::string_view kDefault = "default";

/// As query strings are written: %63g_ is cg_, and + a blank.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at] == '+' ? ' ' : text[at];
    if (c == '%' && at + 2 < text.size()) {
      unsigned code = 0;
      const auto read = std::from_chars(text.data() + at + 1, text.data() + at + 3, code, 16);
      if (read.ec == std::errc{} && read.ptr == text.data() + at + 3) {
        c = static_cast<char>(code);
        at += 2;
      }
    }
    out += c;
  }
  return out;
}

}  // namespace

Tenants::Tenants(const Config& config) : refuse_unknown_(config.refuse_unknown) {
  const auto data = read_address(config.listen.data);
  key_demanded_ = data && !data->loopback;
  for (const TenantConfig& one : config.tenants) {
    const auto tenant = tenants_.emplace_back(std::make_shared<const TenantConfig>(one));
    for (const std::string& text : one.keys) {
      if (const auto digest = key_digest_of(text)) digests_.emplace_back(*digest, tenant);
    }
  }
  if (!by_name(kDefault)) tenants_.push_back(std::make_shared<const TenantConfig>(TenantConfig{.name = "default"}));
}

std::shared_ptr<const TenantConfig> Tenants::by_name(std::string_view name) const {
  const auto found = std::ranges::find_if(tenants_, [&](const auto& one) { return one->name == name; });
  return found == tenants_.end() ? nullptr : *found;
}

std::shared_ptr<const TenantConfig> Tenants::named(std::string_view name) const { return by_name(name); }

std::shared_ptr<const TenantConfig> Tenants::by_key(std::string_view key) const {
  const KeyDigest shown = digest_of_key(key);
  std::shared_ptr<const TenantConfig> found;
  // All of them, whichever fits, so that the time says nothing.
  for (const auto& [digest, tenant] : digests_) {
    if (same_digest(digest, shown)) found = tenant;
  }
  return found;
}

std::expected<std::shared_ptr<const TenantConfig>, NotAllowed> Tenants::who(const std::vector<std::string>& keys,
                                                                            std::string_view name) const {
  std::shared_ptr<const TenantConfig> holder;
  for (const std::string& key : keys) {
    const auto tenant = by_key(key);
    if (!tenant) {
      return std::unexpected(
          NotAllowed{401,
                     "callgate_unknown_key",
                     "this key looks like one that callgate issued (cg_…), but belongs to no tenant here; its digest "
                     "may be missing from tenants.NAME.keys, or it was withdrawn"});
    }
    if (holder && holder != tenant) {
      return std::unexpected(
          NotAllowed{403, "callgate_other_tenant", "the request has issued keys of two tenants; send one of them"});
    }
    holder = tenant;
  }
  if (holder) {
    if (!name.empty() && name != holder->name) {
      return std::unexpected(NotAllowed{403,
                                        "callgate_other_tenant",
                                        "Callgate-Tenant names another tenant than the one whose key is shown (" +
                                            holder->name + "); leave it out, or use that tenant's key"});
    }
    return holder;
  }
  if (key_demanded_) {
    return std::unexpected(NotAllowed{401,
                                      "callgate_key_required",
                                      "this callgate wants an issued key (cg_…) in place of the provider's key; "
                                      "`callgate keys issue` makes one"});
  }
  const auto named = by_name(name);
  if (!refuse_unknown_) return named ? named : by_name(kDefault);
  if (name.empty()) {
    return std::unexpected(NotAllowed{403,
                                      "callgate_unknown_tenant",
                                      "the request says of no tenant that it is theirs (tenancy.unknown: refuse); "
                                      "send Callgate-Tenant, or an issued key in place of the provider's key"});
  }
  if (!named) {
    return std::unexpected(
        NotAllowed{403,
                   "callgate_unknown_tenant",
                   "Callgate-Tenant is " + say(name) +
                       ", which is not configured (tenancy.unknown: refuse); add it to tenants, or "
                       "correct the name"});
  }
  if (!named->keys.empty()) {
    return std::unexpected(NotAllowed{401,
                                      "callgate_key_required",
                                      "tenant " + named->name +
                                          " has issued keys, so that its name alone is not believed "
                                          "(tenancy.unknown: refuse); send one in place of the provider's key"});
  }
  return named;
}

std::vector<std::string> take_issued_keys(classifier::Headers& headers, std::string& query) {
  std::vector<std::string> keys;
  std::erase_if(headers, [&](const classifier::Header& header) {
    const std::string_view key = is_key_header(header.name) ? issued_key_in(header.value) : std::string_view{};
    if (!key.empty()) keys.emplace_back(key);
    return !key.empty();
  });
  std::string kept;
  bool any = false;
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t end = std::min(query.find_first_of("&;", at), query.size());
    const std::string_view pair = std::string_view{query}.substr(at, end - at);
    const std::size_t equals = pair.find('=');
    const std::string value = equals == pair.npos ? std::string{} : decoded(pair.substr(equals + 1));
    const std::string_view key = is_key_parameter(pair) ? issued_key_in(value) : std::string_view{};
    if (key.empty()) {
      kept.append(kept.empty() ? "" : "&").append(pair);
    } else {
      keys.emplace_back(key);
      any = true;
    }
    at = end + 1;
  }
  if (any) query = std::move(kept);
  return keys;
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  // On a mismatch the last star takes one character more: no pattern takes longer than the product of the lengths.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = pattern.npos;
  std::size_t taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

std::expected<void, NotAllowed> may_use(const TenantConfig& tenant, std::string_view method, std::string_view model) {
  if (tenant.models.empty()) return {};
  if (model.empty()) {
    if (method == "GET" || method == "HEAD") return {};
    return std::unexpected(NotAllowed{403,
                                      "callgate_model_not_allowed",
                                      "tenant " + tenant.name +
                                          " may use only some models, and this request names none that callgate can "
                                          "read; see tenants." +
                                          tenant.name + ".models.allow"});
  }
  const auto fits = [&](const std::string& pattern) { return matches_pattern(pattern, model); };
  if (std::ranges::any_of(tenant.models, fits)) return {};
  return std::unexpected(NotAllowed{403,
                                    "callgate_model_not_allowed",
                                    "tenant " + tenant.name + " may not use model " + say(model) + "; tenants." +
                                        tenant.name + ".models.allow has no pattern for it"});
}

}  // namespace gateway
