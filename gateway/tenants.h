#pragma once
// Whose call is this, and may they use that model? (design §3)
//
// An issued key ("cg_…", where a provider's key would stand) binds its tenant; else Callgate-Tenant names one.

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "classifier/headers.h"
#include "gateway/config.h"
#include "gateway/issued_key.h"

namespace gateway {

/// Why a call is nobody's, or not theirs to make. The message names the mend, and no key.
struct NotAllowed {
  int status = 403;
  std::string code{};  // "callgate_unknown_tenant", …
  std::string message{};
};

/// Those of one configuration; calls keep what they began with.
class Tenants {
 public:
  explicit Tenants(const Config& config);

  /// `keys`: the issued keys that were found in the request; `name`: Callgate-Tenant, or empty. Never null.
  [[nodiscard]] std::expected<std::shared_ptr<const TenantConfig>, NotAllowed> who(
      const std::vector<std::string>& keys, std::string_view name) const;

  /// Null: there is none of that name, and none may be made up.
  [[nodiscard]] std::shared_ptr<const TenantConfig> named(std::string_view name) const;

 private:
  [[nodiscard]] std::shared_ptr<const TenantConfig> by_key(std::string_view key) const;
  [[nodiscard]] std::shared_ptr<const TenantConfig> by_name(std::string_view name) const;

  std::vector<std::shared_ptr<const TenantConfig>> tenants_{};
  std::vector<std::pair<KeyDigest, std::shared_ptr<const TenantConfig>>> digests_{};
  bool refuse_unknown_ = false;
  bool key_demanded_ = false;  // Others can reach the data listener: a name alone proves nothing.
};

/// Takes the issued keys out of headers and query, wherever a provider's key may stand there.
[[nodiscard]] std::vector<std::string> take_issued_keys(classifier::Headers& headers, std::string& query);

/// "*" stands for any characters, also none; all else for itself.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

/// By models.allow. A request without a model that we can read may only look (GET, HEAD): else a body in another
/// form, or a batch, would lead around the list.
[[nodiscard]] std::expected<void, NotAllowed> may_use(const TenantConfig& tenant, std::string_view method,
                                                      std::string_view model);

}  // namespace gateway
