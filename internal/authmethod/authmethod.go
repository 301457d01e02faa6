// Package authmethod says what auth methods and binding rules may be, and fills in
// their templates. Package login finds out who logs in with them, package api what
// that grants.
package authmethod

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"berth"
	"berth/internal/pattern"
)

// validName is the form of the names of auth methods.
var validName = pattern.New(`^[A-Za-z0-9_-]{1,128}$`)

// Limits of auth methods.
const (
	MaxClockSkew   = time.Minute // also the default
	MaxLeeway      = time.Hour
	maxItems       = 100
	maxText        = 16 << 10
	maxNameFormat  = 256
	defaultNaming  = "${auth_method_type}-${auth_method_name}"
	maxSelector    = 2048
	maxDescription = 256
)

// Algorithms are the algorithms that tokens may be signed with. The first is
// the default.
var Algorithms = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}

// Canonicalize fills in the defaults of an auth method.
func Canonicalize(m *berth.ACLAuthMethod) {
	if m.TokenNameFormat == "" {
		m.TokenNameFormat = defaultNaming
	}
	if m.Config != nil && m.Config.ClockSkewLeeway == 0 {
		c := *m.Config
		c.ClockSkewLeeway = MaxClockSkew
		m.Config = &c
	}
}

// Validate returns every problem of an auth method but those of its keys and
// certificates.
func Validate(m *berth.ACLAuthMethod) error {
	var ps berth.Problems
	if !validName.MatchString(m.Name) {
		ps.Addf("Name", "%.150q is not a valid name: want letters, digits, - and _, 1 to 128", m.Name)
	}
	if m.TokenLocality != berth.LocalityLocal && m.TokenLocality != berth.LocalityGlobal {
		ps.Addf("TokenLocality", "must be local or global, got %q", berth.Clip(m.TokenLocality, 64))
	}
	if m.MaxTokenTTL <= 0 {
		ps.Addf("MaxTokenTTL", "must be more than 0, got %v", m.MaxTokenTTL)
	}
	if len(m.TokenNameFormat) > maxNameFormat {
		ps.Addf("TokenNameFormat", "must have at most %d bytes, got %d", maxNameFormat, len(m.TokenNameFormat))
	} else if err := CheckTemplate(m.TokenNameFormat, "auth_method_type", "auth_method_name"); err != nil {
		ps.Addf("TokenNameFormat", "%v", err)
	}
	switch {
	case m.Config == nil:
		ps.Addf("Config", "is missing")
	case m.Type == berth.AuthOIDC:
		oidc(&ps, m.Config)
		common(&ps, m.Config)
	case m.Type == berth.AuthJWT:
		jwt(&ps, m.Config)
		common(&ps, m.Config)
	}
	if m.Type != berth.AuthOIDC && m.Type != berth.AuthJWT {
		ps.Addf("Type", "must be OIDC or JWT, got %q", berth.Clip(m.Type, 64))
	}
	return ps.Err()
}

// oidc notes the problems of a configuration for OIDC.
func oidc(ps *berth.Problems, c *berth.AuthMethodConfig) {
	checkURL(ps, "Config.OIDCDiscoveryURL", c.OIDCDiscoveryURL)
	if c.OIDCClientID == "" {
		ps.Addf("Config.OIDCClientID", "is missing")
	}
	if len(c.AllowedRedirectURIs) == 0 {
		ps.Addf("Config.AllowedRedirectURIs", "is missing")
	}
	for _, u := range c.AllowedRedirectURIs {
		checkURL(ps, "Config.AllowedRedirectURIs", u)
	}
	if len(c.JWTValidationPubKeys) > 0 || c.JWKSURL != "" || c.JWKSCACert != "" {
		ps.Addf("Config", "JWTValidationPubKeys, JWKSURL and JWKSCACert are for methods of type JWT")
	}
}

// jwt notes the problems of a configuration for JWT.
func jwt(ps *berth.Problems, c *berth.AuthMethodConfig) {
	sources := 0
	if len(c.JWTValidationPubKeys) > 0 {
		sources++
	}
	if c.JWKSURL != "" {
		sources++
		checkURL(ps, "Config.JWKSURL", c.JWKSURL)
	}
	if c.OIDCDiscoveryURL != "" {
		sources++
		checkURL(ps, "Config.OIDCDiscoveryURL", c.OIDCDiscoveryURL)
	}
	if sources != 1 {
		ps.Addf("Config", "must have one of JWTValidationPubKeys, JWKSURL and OIDCDiscoveryURL, got %d of them", sources)
	}
	if c.OIDCClientID != "" || c.OIDCClientSecret != "" || len(c.OIDCScopes) > 0 || len(c.AllowedRedirectURIs) > 0 || c.OIDCEnablePKCE || c.OIDCDisableUserInfo {
		ps.Addf("Config", "OIDCClientID, OIDCClientSecret, OIDCScopes, OIDCEnablePKCE, OIDCDisableUserInfo and AllowedRedirectURIs are for methods of type OIDC")
	}
}

// common notes the problems that a configuration of any type can have.
func common(ps *berth.Problems, c *berth.AuthMethodConfig) {
	for name, list := range map[string][]string{
		"JWTValidationPubKeys": c.JWTValidationPubKeys, "DiscoveryCaPem": c.DiscoveryCaPem, "OIDCScopes": c.OIDCScopes, "BoundAudiences": c.BoundAudiences,
		"BoundIssuer": c.BoundIssuer, "AllowedRedirectURIs": c.AllowedRedirectURIs, "SigningAlgs": c.SigningAlgs,
		"OIDCClientSecret": {c.OIDCClientSecret}, "OIDCClientID": {c.OIDCClientID}, "JWKSCACert": {c.JWKSCACert},
	} {
		if len(list) > maxItems {
			ps.Addf("Config."+name, "must have at most %d entries, got %d", maxItems, len(list))
		}
		for _, s := range list {
			if len(s) > maxText || !utf8.ValidString(s) {
				ps.Addf("Config."+name, "must be text of at most %d bytes", maxText)
			}
		}
	}
	for _, alg := range c.SigningAlgs {
		if !slices.Contains(Algorithms, alg) {
			ps.Addf("Config.SigningAlgs", "must be some of %s, got %q", strings.Join(Algorithms, ", "), berth.Clip(alg, 64))
		}
	}
	for _, x := range []struct {
		name    string
		d, most time.Duration
	}{{"ExpirationLeeway", c.ExpirationLeeway, MaxLeeway}, {"NotBeforeLeeway", c.NotBeforeLeeway, MaxLeeway}, {"ClockSkewLeeway", c.ClockSkewLeeway, MaxClockSkew}} {
		if x.d < 0 || x.d > x.most {
			ps.Addf("Config."+x.name, "must be from 0 to %v, got %v", x.most, x.d)
		}
	}
	seen := map[string]bool{}
	for name, list := range map[string]map[string]string{"ClaimMappings": c.ClaimMappings, "ListClaimMappings": c.ListClaimMappings} {
		if len(list) > maxItems {
			ps.Addf("Config."+name, "must have at most %d entries, got %d", maxItems, len(list))
		}
		for claim, to := range list {
			switch {
			case claim == "" || !fieldName.MatchString(to):
				ps.Addf("Config."+name, "must map claims to names of letters, digits and _, got %q for %q", berth.Clip(to, 64), berth.Clip(claim, 64))
			case seen[name+to]:
				ps.Addf("Config."+name, "two claims are mapped to %q", to)
			}
			seen[name+to] = true
		}
	}
}

// checkURL notes what is wrong with an address.
func checkURL(ps *berth.Problems, name, s string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" || len(s) > 2048 {
		ps.Addf(name, "must be an http or https URL, got %q", berth.Clip(s, 128))
	}
}

// ValidateRule returns every problem of a binding rule but those of its selector.
func ValidateRule(r *berth.ACLBindingRule) error {
	var ps berth.Problems
	if len(r.Description) > maxDescription || !utf8.ValidString(r.Description) {
		ps.Addf("Description", "is not text of at most %d bytes", maxDescription)
	}
	if r.AuthMethod == "" {
		ps.Addf("AuthMethod", "is missing")
	}
	if len(r.Selector) > maxSelector {
		ps.Addf("Selector", "must have at most %d bytes, got %d", maxSelector, len(r.Selector))
	}
	switch r.BindType {
	case berth.BindManagement:
		if r.BindName != "" {
			ps.Addf("BindName", "must be empty if BindType is management, got %q", berth.Clip(r.BindName, 64))
		}
	case berth.BindRole, berth.BindPolicy:
		if r.BindName == "" || len(r.BindName) > maxNameFormat {
			ps.Addf("BindName", "must be the name of a %s, of 1 to %d bytes", r.BindType, maxNameFormat)
		} else if err := CheckTemplate(r.BindName); err != nil {
			ps.Addf("BindName", "%v", err)
		}
	default:
		ps.Addf("BindType", "must be role, policy or management, got %q", berth.Clip(r.BindType, 64))
	}
	return ps.Err()
}

// fieldName is the form of the names that claims are mapped to.
var fieldName = pattern.New(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// placeholder is what a template has values in place of.
var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

// CheckTemplate returns an error unless a text with ${…} names only the given
// names and value.NAME in it.
func CheckTemplate(text string, names ...string) error {
	if strings.Contains(placeholder.ReplaceAllString(text, ""), "${") {
		return fmt.Errorf("%q has ${ without }", berth.Clip(text, 64))
	}
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		name, ok := strings.CutPrefix(m[1], "value.")
		if !slices.Contains(names, m[1]) && (!ok || !fieldName.MatchString(name)) {
			return fmt.Errorf("${%s} is unknown: want ${value.NAME}%s", berth.Clip(m[1], 64), orNames(names))
		}
	}
	return nil
}

// orNames lists further names that a template may have.
func orNames(names []string) (out string) {
	for _, n := range names {
		out += " or ${" + n + "}"
	}
	return out
}

// Expand replaces each ${NAME} of a template. It returns false if a value is
// missing or empty.
func Expand(text string, value func(name string) string) (string, bool) {
	whole := true
	out := placeholder.ReplaceAllStringFunc(text, func(s string) string {
		v := value(s[2 : len(s)-1])
		whole = whole && v != ""
		return v
	})
	return out, whole
}
