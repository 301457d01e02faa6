package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"berth"
	"berth/op"
)

// handler answers a request; values are the parts of its path.
type handler func(http.ResponseWriter, *http.Request, values)

// routes finds the handler of a request. Segments of the escaped path are
// matched from left to right, literals before names, so that an ID may hold an
// escaped slash. An ID whose slashes were not escaped, as some callers send
// them, is found by what stands around it.
type routes struct {
	list []route // in the order in which match tries them
}

// route is the path and method of one operation.
type route struct {
	info    *op.Info
	parts   []string // a literal, or {Name}
	handler handler
}

// badMethod is a path that exists, with a method that it does not have.
type badMethod struct{ allowed string }

// Error implements error. Its text is what Nomad answers.
func (e *badMethod) Error() string { return "Invalid method" }

// add adds a route, and keeps the list in the order in which match tries it. It
// is called before the first request.
func (rs *routes) add(info *op.Info, h handler) {
	rs.list = append(rs.list, route{info, strings.Split(strings.Trim(info.Path, "/"), "/"), h})
	slices.SortStableFunc(rs.list, func(a, b route) int { return compareParts(a.parts, b.parts) })
}

// compareParts puts literals before names.
func compareParts(a, b []string) int {
	for i := range min(len(a), len(b)) {
		an, bn := named(a[i]), named(b[i])
		switch {
		case an && !bn:
			return 1
		case bn && !an:
			return -1
		}
	}
	return len(b) - len(a)
}

// named reports whether a part of a path stands for a value.
func named(part string) bool { return strings.HasPrefix(part, "{") }

// match returns the handler of a request and the values in its path.
func (rs *routes) match(r *http.Request) (handler, values, error) {
	segments := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	// An exact match is preferred: a loose one may take an action at the end
	// for a part of an ID.
	for _, loose := range []bool{false, true} {
		// Another route may have the path with the right method, so a wrong
		// method is not the end.
		var allowed []string
		for _, rt := range rs.list {
			vals, ok := rt.match(segments, loose)
			if !ok {
				continue
			}
			if accepts(rt.info, r.Method) {
				return rt.handler, vals, nil
			}
			allowed = append(allowed, methods(rt.info)...)
		}
		if len(allowed) > 0 {
			return nil, nil, &badMethod{strings.Join(allowed, ", ")}
		}
	}
	if r.URL.Path == "/" {
		return nil, nil, berth.Errorf(berth.NotFound, "this is the HTTP API of a Berth agent, which has no web page; its paths begin with /v1/, such as /v1/jobs, and the command line asks it: berth status")
	}
	return nil, nil, berth.Errorf(berth.NotFound, "no such path: %s", berth.Clip(r.URL.Path, 64))
}

// accepts reports whether a route takes a method. PUT and POST are the same.
func accepts(info *op.Info, got string) bool {
	return slices.Contains(methods(info), got) || got == http.MethodHead && slices.Contains(methods(info), http.MethodGet)
}

// methods returns the methods that a route takes.
func methods(info *op.Info) []string {
	switch {
	case info.Posted && !info.Any || info.Method == http.MethodPut:
		return []string{http.MethodPut, http.MethodPost}
	case info.Any:
		return []string{info.Method, http.MethodPut, http.MethodPost}
	}
	return []string{info.Method}
}

// match compares segments with the route. A loose match lets the one named
// part take several segments.
func (rt *route) match(segments []string, loose bool) (values, bool) {
	extra := len(segments) - len(rt.parts)
	if extra < 0 || extra > 0 && !loose {
		return nil, false
	}
	if !rt.literals(segments, extra) {
		return nil, false
	}
	vals := values{}
	k := 0
	for _, part := range rt.parts {
		if !named(part) {
			k++
			continue
		}
		n := 1 + extra
		extra = 0 // only the first named part grows
		text, err := url.PathUnescape(strings.Join(segments[k:k+n], "/"))
		if err != nil || text == "" {
			return nil, false
		}
		vals[strings.Trim(part, "{}")] = text
		k += n
	}
	return vals, true
}

// literals reports whether the literal parts of the route stand where they must if
// its first named part takes extra segments more than one. Nearly all routes that a
// request is compared with end here.
func (rt *route) literals(segments []string, extra int) bool {
	k := 0
	for _, part := range rt.parts {
		switch {
		case named(part):
			k += 1 + extra
			extra = 0
		case k >= len(segments) || segments[k] != part:
			return false
		default:
			k++
		}
	}
	return k == len(segments)
}
