package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/client"
)

// refused reports whether the registry of an image certainly refuses credentials,
// which are in the form of the API. It is asked after a pull has failed: engines
// answer such a pull, and a login, with the same code as one whose registry is
// away, so the registry is asked as well.
func (d *Driver) refused(ctx context.Context, name, auth string) bool {
	b, err := base64.URLEncoding.DecodeString(auth)
	var c credential
	if err != nil || json.Unmarshal(b, &c) != nil {
		return false
	}
	_, err = d.engine.RegistryLogin(ctx, client.RegistryLoginOptions{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken, ServerAddress: c.ServerAddress})
	if err == nil || errdefs.IsUnauthorized(err) {
		return err != nil
	}
	image, err := reference.ParseNormalizedNamed(name)
	if err != nil || c.Username == "" {
		return false
	}
	host := reference.Domain(image)
	refuses, err := basicRefused(ctx, "https://"+host, &c)
	if err != nil && loopback(host) { // engines speak HTTP to these, too
		refuses, err = basicRefused(ctx, "http://"+host, &c)
	}
	return err == nil && refuses
}

// loopback reports whether an address with a port is one of this machine.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// basicRefused asks the version check of a registry, as its public HTTP API
// documents it, and reports whether it refuses credentials that it wants in the
// scheme Basic. Whom a token service lets in, it does not tell.
func basicRefused(ctx context.Context, url string, c *credential) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v2/", nil)
	if err != nil {
		return false, err
	}
	q.SetBasicAuth(c.Username, c.Password)
	// Not followed: credentials are for this registry alone.
	noRedirects := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := noRedirects.Do(q)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	scheme, _, _ := strings.Cut(answer.Header.Get("WWW-Authenticate"), " ")
	return answer.StatusCode == http.StatusUnauthorized && strings.EqualFold(scheme, "Basic"), nil
}
