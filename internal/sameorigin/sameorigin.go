// Package sameorigin keeps web pages from using an HTTP API that trusts its
// network. A browser lets any page send requests to any address that it can
// reach, loopback included, and a page can even read the answers if its DNS
// name turns into the address of the API (DNS rebinding). [Policy.Check]
// refuses both, before anything else looks at a request. Programs such as curl
// notice nothing, because they do not send the headers of a browser.
//
// What it decides follows from three headers:
//
//   - Host must be an IP address or a known name. A page that rebinds its name
//     sends this name. It cannot rebind an address.
//   - Origin and Sec-Fetch-Site, which browsers set and pages cannot change,
//     must tell of a page of the API itself. The one exception is a link that a
//     user follows: its answer is shown and no page can read it.
//   - Content-Type must be one that pages of other sites cannot send without
//     asking first, if the request comes from a browser and has a body.
package sameorigin

import (
	"crypto/x509"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"berth/internal/pattern"
)

// Policy decides which requests an API answers. The zero Policy knows IP
// addresses and the names of the loopback interface. It must not change while
// it is used.
type Policy struct {
	// Names are the DNS names of the agent, without ports. Case does not matter.
	Names []string
	// Configured are names that an operator has added. See [Valid]. A page of
	// such a name may use the API even if the Host header differs, as behind a
	// proxy: one on the port of the entry or, without one, on the default port.
	Configured []string
	// Certificate returns the API's current certificate, whose names are known
	// as well; nil: it has none.
	Certificate func() *x509.Certificate
	// Key is the configuration key for Configured, for the texts of refusals; "":
	// there is none.
	Key string
}

// Reason is why a request was refused.
type Reason string

// The reasons.
const (
	UnknownHost   Reason = "unknown-host"   // the Host header names another machine
	ForeignPage   Reason = "foreign-page"   // a page of another site sent it
	SimpleContent Reason = "simple-content" // any page could have sent this kind of body
)

// Refusal is why a request is not answered.
type Refusal struct {
	Status int // of HTTP
	Reason Reason
	Text   string // for a person: what is wrong and what to do
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// loopback are the names that every machine has for itself.
var loopback = []string{"localhost", "ip6-localhost", "localhost.localdomain"}

// any, among configured names, accepts every Host header. Pages of other sites
// are still refused.
const anyHost = "*"

// entryForm is a DNS name, or "*." and one, with an optional port.
var entryForm = pattern.New(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?(:[0-9]{1,5})?$`)

// nameForm is a DNS name in lower case.
var nameForm = pattern.New(`^[a-z0-9_.-]{1,253}$`)

// Valid reports whether s can be a configured name: a DNS name, "*." and a
// domain for all names below it, either with a port, or "*" for every name.
func Valid(s string) bool { return s == anyHost || entryForm.MatchString(s) }

// Check returns why a request must not be answered, nil if it may be.
func (p *Policy) Check(r *http.Request) *Refusal {
	if refusal := p.checkHost(r); refusal != nil {
		return refusal
	}
	origin, site := r.Header["Origin"], r.Header["Sec-Fetch-Site"]
	if len(origin) == 0 && len(site) == 0 {
		return nil // not a browser, or one that follows a link without encryption
	}
	if len(origin) > 1 || len(origin) == 1 && !p.ours(r, origin[0]) {
		return p.foreign(origin[0])
	}
	for _, s := range site {
		if s != "same-origin" && s != "none" && !followsLink(r) {
			return p.foreign("")
		}
	}
	return checkContent(r)
}

// checkHost refuses a Host header with a name that is not the agent's. HTTP/1.0
// has requests without one; browsers always send it.
func (p *Policy) checkHost(r *http.Request) *Refusal {
	if r.Host == "" {
		return nil
	}
	name, _ := split(r.Host)
	if _, err := netip.ParseAddr(name); err == nil || p.knows(name) {
		return nil
	}
	text := fmt.Sprintf("the Host header of this request is %.100q, which is not a known name of this agent: use an IP address", r.Host)
	if p.Key != "" {
		text += ", or add the name to " + p.Key + " in the agent's configuration"
	}
	return &Refusal{http.StatusForbidden, UnknownHost, text}
}

// knows reports whether a name, in lower case, is one of the agent's.
func (p *Policy) knows(name string) bool {
	if !nameForm.MatchString(name) {
		return slices.Contains(p.Configured, anyHost)
	}
	same := func(s string) bool { return strings.EqualFold(s, name) }
	if slices.Contains(loopback, name) || slices.ContainsFunc(p.Names, same) {
		return true
	}
	for _, entry := range p.Configured {
		if pattern, _ := split(entry); entry == anyHost || matches(pattern, name) {
			return true
		}
	}
	if p.Certificate == nil {
		return false
	}
	leaf := p.Certificate()
	return leaf != nil && leaf.VerifyHostname(name) == nil
}

// matches reports whether a name is the pattern's or, if that begins with "*.",
// below it.
func matches(pattern, name string) bool {
	if domain, ok := strings.CutPrefix(pattern, "*"); ok {
		return len(name) > len(domain) && strings.HasSuffix(name, domain)
	}
	return pattern == name
}

// ours reports whether an Origin header is that of a page of the API: it has the
// host and port of the request, or is a configured one.
func (p *Policy) ours(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false // "null" included, which sandboxed frames and files send
	}
	name, port := split(u.Host)
	standard := defaultPort(u.Scheme == "https")
	if port == "" {
		port = standard
	}
	own, ownPort := split(r.Host)
	if ownPort == "" {
		// A proxy may have taken off the encryption.
		ownPort = defaultPort(r.TLS != nil || u.Scheme == "https")
	}
	if name == own && port == ownPort {
		return r.TLS == nil || u.Scheme == "https"
	}
	for _, entry := range p.Configured {
		pattern, at := split(entry)
		if at == "" {
			at = standard
		}
		if entry != anyHost && port == at && matches(pattern, name) && nameForm.MatchString(name) {
			return true
		}
	}
	return false
}

// foreign is the refusal of a request from a page of another site, whose origin
// is "" if the browser did not say it.
func (p *Policy) foreign(origin string) *Refusal {
	text := "a web page of another site sent this request, and only pages of this agent may use its API"
	if origin != "" {
		text = fmt.Sprintf("a web page of %.100q sent this request, and only pages of this agent may use its API", origin)
	}
	if p.Key != "" {
		text += "; if that is a proxy in front of this agent, add its name to " + p.Key + " in the agent's configuration"
	}
	return &Refusal{http.StatusForbidden, ForeignPage, text}
}

// followsLink reports whether a request is what a browser sends when its user
// follows a link and the answer will be the page shown.
func followsLink(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Origin") == "" && r.Header.Get("Upgrade") == "" &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// checkContent refuses bodies that a page of any site could send: those of a
// form, plain text, and those without a type.
func checkContent(r *http.Request) *Refusal {
	if r.ContentLength == 0 {
		return nil
	}
	switch t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); t {
	case "application/json", "application/octet-stream":
		return nil
	default:
		return &Refusal{http.StatusUnsupportedMediaType, SimpleContent,
			fmt.Sprintf("the Content-Type of a browser's request must be application/json, got %.100q", r.Header.Get("Content-Type"))}
	}
}

// split returns the name or address of a host with an optional port, in lower
// case and without a final dot, and the port, "" if there is none.
func split(host string) (name, port string) {
	name = host
	if rest, ok := strings.CutPrefix(host, "["); ok {
		name, rest, _ = strings.Cut(rest, "]")
		port = strings.TrimPrefix(rest, ":")
	} else if strings.Count(host, ":") == 1 {
		name, port, _ = strings.Cut(host, ":")
	}
	return strings.ToLower(strings.TrimSuffix(name, ".")), port
}

// defaultPort is the port of a URL that names none.
func defaultPort(encrypted bool) string {
	if encrypted {
		return "443"
	}
	return "80"
}
