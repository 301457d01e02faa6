package api

import (
	"cmp"
	"context"
	"encoding"
	"encoding/base64"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
	"berth/op"
)

// values are the parts of a path that its route names.
type values map[string]string

// queryOf returns the read options that in embeds, nil if it embeds none.
func queryOf(in any) *op.Query {
	switch v := in.(type) {
	case *op.Query:
		return v
	case interface{ Opts() *op.Query }:
		return v.Opts()
	}
	return nil
}

// writeOf returns the write options that in embeds, nil if it embeds none.
func writeOf(in any) *op.Write {
	if v, ok := in.(interface{ Opts() *op.Write }); ok {
		return v.Opts()
	}
	return nil
}

// regionAsked returns the region that a request is for, "" if it names none.
func regionAsked(in any) string {
	if q := queryOf(in); q != nil {
		return q.Region
	}
	if w := writeOf(in); w != nil {
		return w.Region
	}
	return ""
}

// tokenOf returns the caller's token.
func tokenOf(in any) string {
	if q := queryOf(in); q != nil {
		return q.AuthToken
	}
	if w := writeOf(in); w != nil {
		return w.AuthToken
	}
	return ""
}

// decodeRequest fills the empty input of an operation from a request.
func decodeRequest(in any, w http.ResponseWriter, r *http.Request, path values, info *op.Info, s *share) error {
	if info.IsRead() {
		return decodeRead(in, w, r, path, info, s)
	}
	return decodeWrite(in, w, r, path, info, s)
}

// decodeRead fills the input of a read. Region and namespace may stand in a body;
// all other options of reads are parameters.
func decodeRead(in any, w http.ResponseWriter, r *http.Request, path values, info *op.Info, s *share) error {
	if !info.Posted || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return decodeQuery(in, r, path, nil)
	}
	text, err := s.read(w, r, info)
	if err != nil {
		return err
	}
	ps, err := decodeBody(r.Context(), in, text)
	if err != nil {
		return err
	}
	region, space := queryOf(in).Region, queryOf(in).Namespace
	if err := decodeQuery(in, r, path, ps); err != nil {
		return err
	}
	q := queryOf(in)
	agree(&ps, "Region", region, q.Region, "of the request")
	agree(&ps, "Namespace", space, q.Namespace, "of the request")
	q.Region, q.Namespace = cmp.Or(q.Region, region), cmp.Or(q.Namespace, space)
	return ps.Err()
}

// decodeQuery fills the input of a read from path, parameters and headers. ps are
// the problems so far.
func decodeQuery(in any, r *http.Request, path values, ps berth.Problems) error {
	params(&ps, reflect.ValueOf(in).Elem(), r, path)
	q := queryOf(in)
	if q == nil {
		return ps.Err()
	}
	get := query(r).Get
	// Everything that all reads have in common follows; the caller's own fields
	// were filled above.
	q.Region, q.Namespace, q.AuthToken = get("region"), namespace(r), token(r)
	q.Prefix, q.Filter, q.NextToken = get("prefix"), get("filter"), get("next_token")
	q.AllowStale, q.Reverse = flag(&ps, r, "stale"), flag(&ps, r, "reverse")
	if s := get("index"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			ps.Addf("index", "%q is not an index", berth.Clip(s, 64))
		}
		q.MinQueryIndex = n
	}
	// A wait that is too long is not refused; Query.Wait shortens it.
	if s := get("wait"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			ps.Addf("wait", "%q is not a duration such as 30s", berth.Clip(s, 64))
		}
		q.MaxQueryTime = d
	}
	if s := get("per_page"); s != "" {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			ps.Addf("per_page", "must be an integer from 0 to %d, got %q", op.MaxPage, berth.Clip(s, 64))
		}
		q.PerPage = int32(min(n, op.MaxPage))
	}
	return ps.Err()
}

// decodeWrite fills the input of a write from its body, path and parameters.
func decodeWrite(in any, w http.ResponseWriter, r *http.Request, path values, info *op.Info, s *share) error {
	var ps berth.Problems
	if !info.Bytes && (info.Method != http.MethodDelete || info.Body) {
		text, err := s.read(w, r, info)
		if err != nil {
			return err
		}
		if info.Payload {
			reflect.ValueOf(in).Elem().FieldByName("Payload").SetBytes(text)
		} else if ps, err = decodeBody(r.Context(), in, text); err != nil {
			return err
		}
	}
	params(&ps, reflect.ValueOf(in).Elem(), r, path)
	opts := writeOf(in)
	if opts == nil {
		return ps.Err()
	}
	region, space := query(r).Get("region"), namespace(r)
	agree(&ps, "Region", opts.Region, region, "of the request")
	agree(&ps, "Namespace", opts.Namespace, space, "of the request")
	opts.Region, opts.Namespace = cmp.Or(region, opts.Region), cmp.Or(space, opts.Namespace)
	opts.AuthToken = token(r)
	opts.IdempotencyToken = query(r).Get("idempotency_token")
	return ps.Err()
}

// agree notes a problem if a body and the request line name different things: one
// of them is a mistake, and to guess which could change what is somebody else's.
func agree(ps *berth.Problems, field, body, line, where string) {
	if body != "" && line != "" && body != line {
		ps.Addf(field, "%q in the body differs from %q %s", berth.Clip(body, 64), berth.Clip(line, 64), where)
	}
}

// decodeBody fills an input from the text of a body and returns its problems. No
// body is an empty object.
func decodeBody(ctx context.Context, in any, text []byte) (berth.Problems, error) {
	tree := decode.Tree{}
	if len(text) > 0 {
		var err error
		if tree, err = decode.ParseJSONContext(ctx, text); err != nil {
			return nil, err
		}
	}
	dropAssigned(in, tree)
	// Some inputs take other shapes of JSON as well, which older clients send.
	if s, ok := in.(interface{ Shape(decode.Tree) decode.Tree }); ok {
		tree = s.Shape(tree)
	}
	return admit.FillContext(ctx, in, tree, "body")
}

// dropAssigned drops from a body what servers assign to a row, unless the input
// asks for it, so that a client may send back an object as it read it.
func dropAssigned(in any, body decode.Tree) {
	t := reflect.TypeOf(in).Elem()
	for name := range body {
		switch lower := strings.ToLower(name); lower {
		case "createindex", "modifyindex", "createtime", "modifytime":
			if _, asked := t.FieldByNameFunc(func(f string) bool { return strings.ToLower(f) == lower }); !asked {
				delete(body, name)
			}
		}
	}
}

// query returns the parameters of a request, which are parsed once for all who read
// them: no operation takes a form.
func query(r *http.Request) url.Values {
	if r.Form == nil {
		r.Form = r.URL.Query()
	}
	return r.Form
}

// params fills fields from the path, and those with a query or header tag from the
// parameters and the header.
func params(ps *berth.Problems, v reflect.Value, r *http.Request, path values) {
	query := query(r)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if s, ok := path[f.Name]; ok {
			agree(ps, f.Name, v.Field(i).String(), s, "in the path")
			v.Field(i).SetString(s)
			continue
		}
		if header := f.Tag.Get("header"); header != "" { // a text
			v.Field(i).SetString(r.Header.Get(header))
			continue
		}
		name := f.Tag.Get("query")
		if name == "" || !query.Has(name) {
			continue
		}
		if list, ok := v.Field(i).Addr().Interface().(*[]string); ok { // a parameter that may be repeated
			*list = query[name]
			continue
		}
		param(ps, v.Field(i), name, query.Get(name))
	}
}

// param sets one field from the text of a parameter. What does not parse is
// noted as a problem under the parameter's name.
func param(ps *berth.Problems, v reflect.Value, name, s string) {
	// Pointers tell a parameter that is absent from one that is zero.
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	// Types with a text of their own, such as UIDs, know what they accept.
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(s)); err != nil {
			ps.Addf(name, "%v", err)
		}
		return
	}
	var err error
	var want string
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		var b bool
		b, err = parseFlag(s)
		v.SetBool(b)
		want = "true or false"
	case reflect.Int, reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(s, 10, 64)
		v.SetInt(n)
		want = "an integer"
	case reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(s, 10, 64)
		v.SetUint(n)
		want = "an integer of at least 0"
	}
	if err != nil {
		ps.Addf(name, "must be %s, got %q", want, berth.Clip(s, 64))
	}
}

// flag reads a parameter that is true if it is there without a value.
func flag(ps *berth.Problems, r *http.Request, name string) bool {
	q := query(r)
	if !q.Has(name) {
		return false
	}
	b, err := parseFlag(q.Get(name))
	if err != nil {
		ps.Addf(name, "must be true or false, got %q", berth.Clip(q.Get(name), 64))
	}
	return b
}

// parseFlag parses a boolean parameter; without a value it is true.
func parseFlag(s string) (bool, error) {
	if s == "" {
		return true, nil
	}
	return strconv.ParseBool(s)
}

// namespace returns the namespace that the request line names, "" if it names
// none.
func namespace(r *http.Request) string { return query(r).Get("namespace") }

// token is the caller's secret: of the header of Nomad's clients, or a bearer
// token.
func token(r *http.Request) string {
	if t := r.Header.Get(op.HeaderToken); t != "" {
		return strings.TrimSpace(t)
	}
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return strings.TrimSpace(t)
	}
	return socketToken(r)
}

// socketProtocol is what a websocket of a browser speaks, and socketSecret is
// before the caller's token in the list of protocols that it offers: a browser
// lets pages set no header of a websocket but this.
const (
	socketProtocol = "berth"
	socketSecret   = "berth.token."
)

// socketToken is the token of a websocket of a browser, in base64url without
// padding; "" if there is none.
func socketToken(r *http.Request) string {
	for _, v := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(v, ",") {
			if t, ok := strings.CutPrefix(strings.TrimSpace(name), socketSecret); ok {
				secret, _ := base64.RawURLEncoding.DecodeString(t) // what is none is no token
				return string(secret)
			}
		}
	}
	return ""
}
