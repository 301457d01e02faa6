package authmethod

import (
	"strings"
	"testing"
	"time"

	"berth"
)

// jwtMethod returns an auth method that trusts the keys at an address.
func jwtMethod(name string) *berth.ACLAuthMethod {
	return &berth.ACLAuthMethod{
		Name: name, Type: berth.AuthJWT, TokenLocality: berth.LocalityLocal, MaxTokenTTL: time.Hour, TokenNameFormat: "x",
		Config: &berth.AuthMethodConfig{JWKSURL: "https://idp.example/keys"},
	}
}

// Bad input names the field, the value and what is allowed.
func TestBadAuthMethods(t *testing.T) {
	for want, change := range map[string]func(*berth.ACLAuthMethod){
		`Type: must be OIDC or JWT, got "SAML"`:                                  func(m *berth.ACLAuthMethod) { m.Type = "SAML" },
		`TokenLocality: must be local or global, got ""`:                         func(m *berth.ACLAuthMethod) { m.TokenLocality = "" },
		`MaxTokenTTL: must be more than 0`:                                       func(m *berth.ACLAuthMethod) { m.MaxTokenTTL = 0 },
		`TokenNameFormat: ${who} is unknown: want ${value.NAME}`:                 func(m *berth.ACLAuthMethod) { m.TokenNameFormat = "${who}" },
		`TokenNameFormat: "${value.a" has ${ without }`:                          func(m *berth.ACLAuthMethod) { m.TokenNameFormat = "${value.a" },
		`Config: is missing`:                                                     func(m *berth.ACLAuthMethod) { m.Config = nil },
		`must have one of JWTValidationPubKeys, JWKSURL and OIDCDiscoveryURL`:    func(m *berth.ACLAuthMethod) { m.Config.JWKSURL = "" },
		`Config.JWKSURL: must be an http or https URL, got "file:///etc/passwd"`: func(m *berth.ACLAuthMethod) { m.Config.JWKSURL = "file:///etc/passwd" },
		`got "none"`:  func(m *berth.ACLAuthMethod) { m.Config.SigningAlgs = []string{"none"} },
		`got "HS256"`: func(m *berth.ACLAuthMethod) { m.Config.SigningAlgs = []string{"HS256"} },
		`Config.ClockSkewLeeway: must be from 0 to 1m0s, got 1h0m0s`:                         func(m *berth.ACLAuthMethod) { m.Config.ClockSkewLeeway = time.Hour },
		`Config.ClaimMappings: must map claims to names of letters, digits and _, got "a-b"`: func(m *berth.ACLAuthMethod) { m.Config.ClaimMappings = map[string]string{"c": "a-b"} },
	} {
		m := jwtMethod("m")
		change(m)
		if err := Validate(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := Validate(jwtMethod("m")); err != nil {
		t.Error(err)
	}
}
