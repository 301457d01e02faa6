package client

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"

	"berth"
	"berth/op"
)

// RawRequest builds a request of the caller's own making, with the credentials
// of the client. path begins with a slash and may have a query; region and
// namespace of the client are added to it unless it sets them. header overrides
// what the client would send.
func (c *Client) RawRequest(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Request, error) {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return nil, berth.Errorf(berth.Invalid, "path %q must begin with a slash, such as /v1/jobs", path)
	}
	query := u.Query()
	for name, value := range map[string]string{"region": c.config.Region, "namespace": c.config.Namespace} {
		if !query.Has(name) {
			set(query, name, value)
		}
	}
	address := c.base + u.EscapedPath()
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s %s: %w", method, path, err)
	}
	if c.config.Token != "" {
		r.Header.Set(op.HeaderToken, c.config.Token)
	}
	if c.config.BasicAuth != "" {
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.config.BasicAuth)))
	}
	for name, values := range header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	return r, nil
}

// Raw sends a request of RawRequest and returns the answer, whatever its status.
// The caller closes its body. The error is an Unreachable if no agent answers.
func (c *Client) Raw(r *http.Request) (*http.Response, error) {
	resp, err := c.send(r)
	if err != nil {
		return nil, c.unreachable(r.Context(), err)
	}
	return resp, nil
}

// Refused returns the error that an answer of Raw stands for, nil if its status
// is success. It reads the body of an error.
func (c *Client) Refused(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	return c.refused(resp)
}
