package client

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"berth"
	"berth/op"
)

// Download runs an operation that answers with bytes, writes them to a writer
// and returns their number. It verifies their checksum. After an error the
// bytes written are incomplete or damaged and must not be used.
func Download[In any](ctx context.Context, c *Client, o op.Op[In, op.Nothing], in In, to io.Writer) (n int64, meta op.Meta, err error) {
	resp, err := send(ctx, c, o.Info, &in)
	if err != nil {
		return 0, meta, err
	}
	defer resp.Body.Close()
	want, ok := strings.CutPrefix(resp.Header.Get(op.HeaderDigest), "sha-256=")
	if !ok {
		return 0, meta, berth.Errorf(berth.Unavailable, "%s answers without a checksum; is it the address of an agent?", c.config.Address)
	}
	sum := sha256.New()
	n, err = io.Copy(io.MultiWriter(to, sum), resp.Body)
	switch {
	case err != nil && ctx.Err() != nil:
		return n, meta, context.Cause(ctx)
	case err != nil:
		return n, meta, fmt.Errorf("%s: the answer of %s broke off: %w", o.Name, c.config.Address, err)
	}
	if got := base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != want {
		return n, meta, fmt.Errorf("%s: what came from %s has the checksum %s, and should have %s", o.Name, c.config.Address, got, want)
	}
	return n, readMeta(resp.Header), nil
}

// Upload runs an operation whose body is bytes. size is their number, or -1 if
// it is not known.
func Upload[In, Out any](ctx context.Context, c *Client, o op.Op[In, Out], in In, body io.Reader, size int64) (out Out, meta op.Meta, err error) {
	r, err := c.request(ctx, o.Info, &in)
	if err != nil {
		return out, meta, err
	}
	r.Body, r.ContentLength = io.NopCloser(body), size
	r.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.do(r, o.Info)
	if err != nil {
		return out, meta, err
	}
	return answer[Out](ctx, c, o.Info, resp)
}
