package client

import (
	"bytes"
	"context"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/op"
)

// Call runs one operation and returns its answer. A query with a MinQueryIndex
// waits on the server; ctx ends any wait. Errors keep the kind that the server
// gave them.
func Call[In, Out any](ctx context.Context, c *Client, o op.Op[In, Out], in In) (out Out, meta op.Meta, err error) {
	resp, err := send(ctx, c, o.Info, &in)
	if err != nil {
		return out, meta, err
	}
	return answer[Out](ctx, c, o.Info, resp)
}

// answer decodes the answer to an operation and closes its body.
func answer[Out any](ctx context.Context, c *Client, info *op.Info, resp *http.Response) (out Out, meta op.Meta, err error) {
	defer resp.Body.Close()
	if t := mediaType(resp); t != "application/json" {
		return out, meta, berth.Errorf(berth.Unavailable, "%s answers with %q and not with JSON; is it the address of an agent?", c.config.Address, t)
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		if ctx.Err() != nil {
			return out, meta, context.Cause(ctx)
		}
		return out, meta, fmt.Errorf("%s: the answer of %s cannot be read: %w", info.Name, c.config.Address, err)
	}
	// Reading to the end lets the next call reuse the connection.
	_, _ = io.CopyN(io.Discard, resp.Body, 1)
	return out, readMeta(resp.Header), nil
}

// send sends the request of an operation.
func send(ctx context.Context, c *Client, info *op.Info, in any) (*http.Response, error) {
	r, err := c.request(ctx, info, in)
	if err != nil {
		return nil, err
	}
	return c.do(r, info)
}

// request builds the HTTP request of an operation. Fields named in the path go
// there, those with a query or header tag go into the query or the header, and
// the rest of a write goes into the body.
func (c *Client) request(ctx context.Context, info *op.Info, in any) (*http.Request, error) {
	if info.Path == "" {
		return nil, berth.Errorf(berth.Invalid, "%s is not served over HTTP", info.Name)
	}
	b := builder{path: info.Path, query: url.Values{}, header: http.Header{}, body: map[string]any{}, region: c.config.Region, namespace: c.config.Namespace, token: c.config.Token}
	if err := b.fill(reflect.ValueOf(in).Elem()); err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name, err)
	}
	// The fields of the input were applied above, so these are the call's
	// values or else the client's.
	set(b.query, "region", b.region)
	set(b.query, "namespace", b.namespace)
	var body io.Reader
	// A body of bytes is set by Upload.
	if (info.Method == http.MethodPut || info.Body || info.Posted) && !info.Bytes {
		text, err := json.Marshal(b.body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", info.Name, err)
		}
		body = bytes.NewReader(text)
	}
	address := c.base + b.path
	if len(b.query) > 0 {
		address += "?" + b.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, info.Verb(), address, body)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: %w", info.Name, err)
	}
	maps.Copy(r.Header, b.header)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if b.token != "" {
		r.Header.Set(op.HeaderToken, b.token)
	}
	if c.config.BasicAuth != "" {
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.config.BasicAuth)))
	}
	return r, nil
}

// builder gathers the parts of a request from the fields of an input.
type builder struct {
	path                     string
	query                    url.Values
	body                     map[string]any
	header                   http.Header
	region, namespace, token string
}

// fill puts an input's fields where the operation expects them: into the path,
// the query or the body. A value that would make the path another one is an
// error.
func (b *builder) fill(v reflect.Value) error {
	switch x := v.Addr().Interface().(type) {
	case *op.Query:
		b.options(x)
		return nil
	case *op.Write:
		b.said(x.Region, x.Namespace, x.AuthToken)
		set(b.query, "idempotency_token", x.IdempotencyToken)
		return nil
	}
	for f, x := range v.Fields() {
		segment := "{" + f.Name + "}"
		switch tag, header := f.Tag.Get("query"), f.Tag.Get("header"); {
		case header != "":
			if !x.IsZero() {
				b.header.Set(header, x.String())
			}
		case f.Anonymous:
			if err := b.fill(x); err != nil {
				return err
			}
		case strings.Contains(b.path, segment):
			text, err := plain(x)
			if err != nil {
				return err
			}
			if text == "" || text == "." || text == ".." { // such a segment would change the path
				return berth.Errorf(berth.Invalid, "%s: %q cannot be part of a path", f.Name, text)
			}
			b.path = strings.ReplaceAll(b.path, segment, url.PathEscape(text))
		case tag != "" && x.Type() == reflect.TypeFor[[]string](): // a parameter that may be repeated
			if x.Len() > 0 {
				b.query[tag] = slices.Clone(x.Interface().([]string))
			}
		case tag != "":
			text, err := plain(x)
			if err != nil {
				return err
			}
			if !x.IsZero() {
				b.query.Set(tag, text)
			}
		default:
			b.body[f.Name] = x.Interface()
		}
	}
	return nil
}

// options puts the options of a read into the query.
func (b *builder) options(q *op.Query) {
	b.said(q.Region, q.Namespace, q.AuthToken)
	set(b.query, "prefix", q.Prefix)
	set(b.query, "filter", q.Filter)
	set(b.query, "next_token", q.NextToken)
	if q.MinQueryIndex > 0 {
		b.query.Set("index", strconv.FormatUint(q.MinQueryIndex, 10))
	}
	if q.MaxQueryTime > 0 {
		b.query.Set("wait", q.MaxQueryTime.String())
	}
	if q.PerPage > 0 {
		b.query.Set("per_page", strconv.Itoa(int(q.PerPage)))
	}
	if q.AllowStale {
		b.query.Set("stale", "true")
	}
	if q.Reverse {
		b.query.Set("reverse", "true")
	}
}

// said overrides the client's region, namespace and token with those of the
// call.
func (b *builder) said(region, namespace, token string) {
	for _, s := range []struct {
		to   *string
		from string
	}{{&b.region, region}, {&b.namespace, namespace}, {&b.token, token}} {
		if s.from != "" {
			*s.to = s.from
		}
	}
}

// set sets a query parameter unless the value is empty.
func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// plain returns a value as text for a path or a query.
func plain(v reflect.Value) (string, error) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "", nil
		}
		v = v.Elem()
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		return string(text), err
	}
	return fmt.Sprint(v.Interface()), nil
}

// readMeta reads the Meta of an answer from its headers. Missing or invalid
// headers, as from a proxy, leave zero values and are no error.
func readMeta(h http.Header) (m op.Meta) {
	m.Index, _ = strconv.ParseUint(h.Get(op.HeaderIndex), 10, 64)
	ms, _ := strconv.ParseInt(h.Get(op.HeaderLastContact), 10, 64)
	m.LastContact = time.Duration(ms) * time.Millisecond
	m.KnownLeader, _ = strconv.ParseBool(h.Get(op.HeaderKnownLeader))
	m.NextToken = h.Get(op.HeaderNextToken)
	return m
}

// mediaType returns the content type without its parameters, "" if it is
// missing or invalid.
func mediaType(resp *http.Response) string {
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return t
}

// errorText returns the error text of an answer, "" if it is a page for a
// browser.
func errorText(resp *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	if mediaType(resp) == "text/html" {
		return ""
	}
	return strings.TrimSpace(string(text))
}
