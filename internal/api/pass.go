package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"time"

	"berth"
	"berth/op"
)

// A server that passes a request on says in headers how far it may go, and
// whose it is. Only what comes from a server is believed: see Passed.
const (
	headerPassed = "X-Berth-Passed"
	headerFrom   = "X-Berth-From"
	headerUnled  = "X-Berth-Unled" // in answers: ErrUnled
)

// Passed answers HTTP requests that other servers pass on. It takes their word
// for where a request came from, so nobody else may reach it.
func (s *Server) Passed() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get(headerFrom); from != "" {
			r.RemoteAddr = from
		}
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passedKey{}, passed(r.Header.Get(headerPassed)))))
	})
}

// passOn passes a request on to where it must be answered: another region, or
// the leader, if it needs that. If it returns false nothing was answered: the
// request is for this server.
func (s *Server) passOn(w http.ResponseWriter, r *http.Request, info *op.Info, leader bool) (done bool) {
	if s.Others == nil || info.Local {
		return false
	}
	if strings.Contains(r.URL.RawQuery, "region=") && s.away(r.URL.Query().Get("region")) {
		s.passAway(w, r, info, r.URL.Query().Get("region"))
		return true
	}
	if !leader {
		return false
	}
	if passedOf(r.Context()) != passedLeader {
		if _, err := s.Cluster.Leader(); err == nil {
			return false
		}
	}
	body, err := bodyOf(w, r, info)
	if err != nil {
		s.fail(w, err)
		return true
	}
	here, err := s.toLeader(r.Context(), reads(r), func(life context.Context, addr string) error {
		if info == op.TransferLeadership.Info || info == op.RemoveRaftPeer.Info {
			life = r.Context() // who is asked answers when it does not lead any more
		}
		return s.hand(life, w, r, body, addr, passedLeader)
	})
	if err != nil {
		s.fail(w, lostOnTheWay(err))
		return true
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return !here
}

// passAway passes a request on to another region.
func (s *Server) passAway(w http.ResponseWriter, r *http.Request, info *op.Info, region string) {
	body, err := bodyOf(w, r, info)
	if err == nil {
		err = s.toRegion(r.Context(), region, func(ctx context.Context, addr string) error {
			return s.hand(ctx, w, r, body, addr, passedRegion)
		})
	}
	switch {
	case err == nil:
	case berth.KindOf(err) != "":
		s.fail(w, err)
	default:
		s.fail(w, berth.Errorf(berth.Unavailable, "region %q: %w", berth.Clip(region, 64), err))
	}
}

// reads says whether a request changes nothing, so that it can be repeated.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// bodyOf reads the body of a request, so that it can be sent more than once.
func bodyOf(w http.ResponseWriter, r *http.Request, info *op.Info) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil, nil
	}
	return readBody(w, r, info.MaxBody)
}

// attempt is what came of a request that was handed to another server; nil if
// that answered.
type attempt struct{ err error }

type attemptKey struct{}

// hand has another server answer a request. After an error nothing was
// answered.
func (s *Server) hand(ctx context.Context, w http.ResponseWriter, r *http.Request, body []byte, addr string, how passed) error {
	if len(body) == 0 {
		return s.handBytes(ctx, w, r, http.NoBody, 0, addr, how)
	}
	// A connection that was kept may be dead: what it has not sent is sent again.
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := again()
	r = r.WithContext(r.Context()) // a copy
	r.GetBody = again
	return s.handBytes(ctx, w, r, first, int64(len(body)), addr, how)
}

// lastWord is how long a server that has a write, and does not lead any more,
// may take to say what came of it.
const lastWord = time.Second

// handBytes is hand with a body that can be read once; its size is -1 if that
// is not known.
func (s *Server) handBytes(ctx context.Context, w http.ResponseWriter, r *http.Request, body io.ReadCloser, size int64, addr string, how passed) error {
	var a attempt
	var sent atomic.Bool // some of it may have been
	if !reads(r) {
		var end context.CancelFunc
		ctx, end = hearing(ctx, r.Context(), &sent)
		defer end()
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	out := r.Clone(context.WithValue(ctx, attemptKey{}, &a))
	out.Body, out.ContentLength, out.TransferEncoding = body, size, nil
	out.URL.Scheme, out.URL.Host = "http", addr
	out.Header.Set(headerPassed, string(how))
	out.Header.Set(headerFrom, r.RemoteAddr)
	s.proxy.ServeHTTP(w, out)
	switch {
	case a.err == nil || harmless(a.err):
		return a.err
	case !sent.Load(): // another led before there was a connection
		return fmt.Errorf("%w: %w", ErrUnreached, a.err)
	}
	return fmt.Errorf("%w: %w", ErrDropped, a.err)
}

// hearing returns a context for a request of which something may have been sent.
// It ends when asked does, or when life does: then at once if nothing was sent,
// and after lastWord else.
func hearing(life, asked context.Context, sent *atomic.Bool) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(context.WithoutCancel(life))
	gone := context.AfterFunc(asked, end)
	late := context.AfterFunc(life, func() {
		if !sent.Load() {
			end()
			return
		}
		t := time.AfterFunc(lastWord, end)
		context.AfterFunc(ctx, func() { t.Stop() })
	})
	return ctx, func() { gone(); late(); end() }
}

// newProxy is how requests are handed to other servers.
func newProxy(others Others) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host },
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, addr string) (net.Conn, error) { return others.Dial(ctx, addr) },
			DisableCompression: true, IdleConnTimeout: idleTime / 2, MaxIdleConnsPerHost: 64,
		},
		FlushInterval: -1, // streams are handed on as they come
		ModifyResponse: func(r *http.Response) error {
			if r.Header.Get(headerUnled) != "" {
				return ErrUnled
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			r.Context().Value(attemptKey{}).(*attempt).err = err
		},
	}
}

// unled marks an answer, so that who passed the request on knows that nothing
// came of it.
func unled(w http.ResponseWriter, err error) {
	if errors.Is(err, ErrUnled) {
		w.Header().Set(headerUnled, "true")
	}
}
